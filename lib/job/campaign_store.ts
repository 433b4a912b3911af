/** @module The rows of campaigns and candidates. */

import { isTaken, type Row, type Tx } from "../store/mod.ts";
import { SubletError } from "../home/mod.ts";
import { type CampaignConfig, campaignConfig } from "./campaign_config.ts";

/** A registered campaign. Times are milliseconds since 1970 UTC. */
export interface Campaign {
  readonly id: number;
  readonly name: string;
  /** Absolute path of its checkout's root: the repo of record. */
  readonly path: string;
  readonly config: CampaignConfig;
  /** 16 hex digits of what measures: see `evaluatorId`. */
  readonly evaluator: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A commit that was asked for. */
export interface Candidate {
  readonly id: number;
  readonly revision: string;
  readonly subject: string;
}

/** A campaign to store. */
export interface NewCampaign {
  readonly name: string;
  readonly path: string;
  readonly config: CampaignConfig;
  readonly evaluator: string;
}

interface CampaignRow extends Row {
  id: number;
  name: string;
  path: string;
  config: string;
  evaluator: string;
  created_at: number;
  updated_at: number;
}

const COLUMNS = "id, name, path, config, evaluator, created_at, updated_at";

/** Store a campaign, or the new form of the one at its path. Throws `conflict` when another has its name. */
export async function saveCampaign(tx: Tx, campaign: NewCampaign, now: number): Promise<Campaign> {
  const { name, path, evaluator } = campaign;
  try {
    const row = await tx.get<CampaignRow>(
      `INSERT INTO campaigns (name, path, config, evaluator, created_at, updated_at)
       VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (path) DO UPDATE SET name = excluded.name, config = excluded.config,
         evaluator = excluded.evaluator, updated_at = excluded.updated_at
       RETURNING ${COLUMNS}`,
      [name, path, JSON.stringify(campaign.config), evaluator, now, now],
    );
    if (row !== null) return fromRow(row);
  } catch (error) {
    if (!isTaken(error)) throw error;
    const other = await tx.get<CampaignRow>(`SELECT ${COLUMNS} FROM campaigns WHERE name = ?`, [
      name,
    ]);
    throw new SubletError(
      "conflict",
      `the campaign ${name} is at ${
        other?.path ?? "another path"
      }: give the one at ${path} another name`,
    );
  }
  throw new SubletError("internal", `the campaign ${name} was not stored`);
}

/** The campaign of a checkout that was moved keeps its id and history. */
export async function moveCampaign(tx: Tx, id: number, path: string): Promise<void> {
  await tx.run("UPDATE campaigns SET path = ? WHERE id = ?", [path, id]);
}

/** A campaign by id, or by name; null: there is none. */
export async function findCampaign(tx: Tx, key: number | string): Promise<Campaign | null> {
  const column = typeof key === "number" ? "id" : "name";
  const row = await tx.get<CampaignRow>(`SELECT ${COLUMNS} FROM campaigns WHERE ${column} = ?`, [
    key,
  ]);
  return row === null ? null : fromRow(row);
}

/** The campaign whose checkout's root is `path`; null: there is none. */
export async function campaignAt(tx: Tx, path: string): Promise<Campaign | null> {
  const row = await tx.get<CampaignRow>(`SELECT ${COLUMNS} FROM campaigns WHERE path = ?`, [path]);
  return row === null ? null : fromRow(row);
}

/** Up to `limit` campaigns with ids after `after`, in order of id. */
export async function listCampaigns(tx: Tx, after: number, limit: number): Promise<Campaign[]> {
  const rows = await tx.all<CampaignRow>(
    `SELECT ${COLUMNS} FROM campaigns WHERE id > ? ORDER BY id LIMIT ?`,
    [after, limit],
  );
  return rows.map(fromRow);
}

/** The candidate of a revision, made when it is new. */
export async function candidateOf(
  tx: Tx,
  campaign: number,
  revision: string,
  subject: string,
): Promise<Candidate> {
  const row = await tx.get<Row & { id: number; revision: string; subject: string }>(
    `INSERT INTO candidates (campaign, revision, subject) VALUES (?, ?, ?)
     ON CONFLICT (campaign, revision) DO UPDATE SET subject = excluded.subject
     RETURNING id, revision, subject`,
    [campaign, revision, subject],
  );
  if (row === null) throw new SubletError("internal", `the candidate ${revision} was not stored`);
  return { id: row.id, revision: row.revision, subject: row.subject };
}

function fromRow(row: CampaignRow): Campaign {
  const checked = campaignConfig.safeParse(JSON.parse(row.config));
  if (!checked.success) {
    throw new SubletError(
      "internal",
      `the stored settings of the campaign ${row.name} do not load: run 'sublet init' in ${row.path} again`,
    );
  }
  return {
    id: row.id,
    name: row.name,
    path: row.path,
    config: checked.data,
    evaluator: row.evaluator,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
