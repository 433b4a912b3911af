/** @module The secrets of a home and its campaigns, as people set them: by the campaign's name, with a line in the log. */

import { type Log, SubletError } from "../home/mod.ts";
import type { Owner, Secrets } from "../secret/mod.ts";
import type { Db, Row, Tx } from "../store/mod.ts";
import { findCampaign } from "./campaign_store.ts";

/** A secret as it is listed. */
export interface NamedSecret {
  readonly name: string;
  /** The campaign's name; null: the home's. */
  readonly campaign: string | null;
  /** Milliseconds since 1970. */
  readonly setAt: number;
  readonly setBy: string;
}

/** Whose secret it is: a campaign, by id or name, or the home (null). */
export type SecretOwner = number | string | null;

/** Secrets by the names of campaigns. No value comes out of it. */
export class SecretBook {
  readonly #db: Db;
  readonly #secrets: Secrets;
  readonly #log: Log;

  constructor(db: Db, secrets: Secrets, log: Log) {
    this.#db = db;
    this.#secrets = secrets;
    this.#log = log;
  }

  /** Keep a value. Throws `invalid_request`, and `not_found` for an unknown campaign. */
  async set(owner: SecretOwner, name: string, value: string, by: string): Promise<void> {
    const campaign = await this.#db.write(async (tx) => {
      const found = await ownerOf(tx, owner);
      await this.#secrets.put(tx, found, name, value, by);
      return found;
    });
    this.#log.event("secret.set", { name, campaign, by });
  }

  /** Throws `not_found` for an unknown campaign or secret. */
  async delete(owner: SecretOwner, name: string, by: string): Promise<void> {
    const campaign = await this.#db.write(async (tx) => {
      const found = await ownerOf(tx, owner);
      if (await this.#secrets.delete(tx, found, name)) return found;
      const whose = owner === null ? "the home" : `the campaign ${owner}`;
      throw new SubletError(
        "not_found",
        `${whose} has no secret ${name}: \`sublet secret list\` shows those that there are`,
      );
    });
    this.#log.event("secret.deleted", { name, campaign, by });
  }

  /** Those of the home first, then by campaign and name. */
  async list(): Promise<NamedSecret[]> {
    return await this.#db.read(async (tx) => {
      const rows = await tx.all<Row & { id: number; name: string }>(
        "SELECT id, name FROM campaigns",
      );
      const names = new Map(rows.map(({ id, name }) => [id, name]));
      return (await this.#secrets.list(tx)).map(({ owner, name, setAt, setBy }) => ({
        name,
        campaign: owner === null ? null : names.get(owner) ?? String(owner),
        setAt,
        setBy,
      }));
    });
  }
}

async function ownerOf(tx: Tx, owner: SecretOwner): Promise<Owner> {
  if (owner === null) return null;
  const campaign = await findCampaign(tx, owner);
  if (campaign !== null) return campaign.id;
  throw new SubletError("not_found", `there is no campaign ${owner}: \`sublet init\` makes one`);
}
