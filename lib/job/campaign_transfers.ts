/** @module What workers lack of a campaign's repo goes into the CAS; first transfers are remembered in the database. */

import { type Cas, parseCid } from "../cas/mod.ts";
import { type Clock, type Log, SubletError } from "../home/mod.ts";
import type { Db, Row } from "../store/mod.ts";
import { type FirstTransferStore, Transfers, type Vcs } from "../vcs/mod.ts";
import { findCampaign } from "./campaign_store.ts";

/** What transfers of campaigns are made of. */
export interface CampaignTransfersDeps {
  readonly db: Db;
  readonly cas: Cas;
  readonly vcs: Vcs;
  readonly clock: Clock;
  readonly log: Log;
}

/** The transfers of a server's campaigns: a repo is a campaign's id. */
export function campaignTransfers(deps: CampaignTransfersDeps): Transfers {
  const { db, cas, vcs, clock, log } = deps;
  const open = async (repo: number) => {
    const campaign = await db.read((tx) => findCampaign(tx, repo));
    if (campaign === null) throw new SubletError("not_found", `there is no campaign ${repo}`);
    return await vcs.open(campaign.path, campaign.config.plugins.vcs);
  };
  return new Transfers({ cas, clock, log, open, store: storedTransfers(db) });
}

function storedTransfers(db: Db): FirstTransferStore {
  return {
    recall: async (repo) => {
      const row = await db.read((tx) =>
        tx.get<Row & { revision: string; blob: string; bytes: number }>(
          "SELECT revision, blob, bytes FROM first_transfers WHERE campaign = ?",
          [repo],
        )
      );
      return row === null ? null : { ...row, blob: parseCid(row.blob) };
    },
    remember: async (repo, { revision, blob, bytes }) => {
      await db.write((tx) =>
        tx.run(
          `INSERT INTO first_transfers (campaign, revision, blob, bytes) VALUES (?, ?, ?, ?)
           ON CONFLICT (campaign) DO UPDATE
             SET revision = excluded.revision, blob = excluded.blob, bytes = excluded.bytes`,
          [repo, revision, blob, bytes],
        )
      );
    },
  };
}
