/** @module Queues of any length for the lease benchmark, and a kind of job that does nothing. */

import { type Cid, cidOf } from "../../lib/cas/mod.ts";
import type { JobKind } from "../../lib/lease/mod.ts";
import type { Db } from "../../lib/store/mod.ts";

/** A kind whose jobs have no rows of their own: what is measured is the engine. */
export class IdleKind implements JobKind {
  readonly kind = "idle";
  readonly slots = "evaluations";

  parse(report: unknown): unknown {
    return report;
  }

  blobs(): Cid[] {
    return [];
  }

  apply(): Promise<void> {
    return Promise.resolve();
  }

  started(): Promise<void> {
    return Promise.resolve();
  }

  lost(): Promise<void> {
    return Promise.resolve();
  }

  ended(): Promise<void> {
    return Promise.resolve();
  }
}

/** Queue `count` jobs as `submit` would, in a few large transactions. */
export async function fillQueue(db: Db, count: number): Promise<void> {
  const lane = JSON.stringify(["idle", null, "process", []]);
  const cid = cidOf(new Uint8Array([1]));
  const at = Date.now();
  const prefix = crypto.randomUUID();
  for (let from = 0; from < count; from += 50_000) {
    const rows = Math.min(50_000, count - from);
    await db.write(async (tx) => {
      const before = await tx.get<{ id: number | null }>("SELECT max(id) AS id FROM jobs");
      const counted =
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows})`;
      await tx.run(
        `${counted} INSERT INTO jobs (kind, key, job_cid, campaign, lane, priority, max_attempts, created_at)
         SELECT 'idle', ? || i, ?, 1 + i % 4, ?, 0, 3, ? FROM n`,
        [`${prefix}-${from}-`, cid, lane, at],
      );
      await tx.run(
        `INSERT INTO leases (job_id, attempt, slots, lane, campaign, priority, ready, created_at)
         SELECT id, 1, 'evaluations', lane, campaign, 0, 1, ? FROM jobs WHERE id > ?`,
        [at, before?.id ?? 0],
      );
      await tx.run(
        `INSERT INTO lease_events (at, event, job_id, lease)
         SELECT ?, 'queued', job_id, id FROM leases WHERE job_id > ?`,
        [at, before?.id ?? 0],
      );
    });
  }
}
