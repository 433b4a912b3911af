/** @module Two kinds of job on the server, which write down what they are told, in the transaction that makes it so. */

import * as z from "zod";
import type { Cid } from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";
import { filesByPath } from "../../lib/job/mod.ts";
import type { JobKind, JobRef } from "../../lib/lease/mod.ts";
import type { Tx } from "../../lib/store/mod.ts";

/** What a worker's runner reports. */
const report = z.object({
  kind: z.string(),
  key: z.string(),
  lease: z.int(),
  files: filesByPath.default({}),
});
type Parsed = z.output<typeof report>;

/** A kind of job. */
export class SimKind implements JobKind {
  constructor(readonly kind: string, readonly slots: "agents" | "evaluations") {}

  parse(value: unknown): unknown {
    const parsed = report.safeParse(value);
    if (parsed.success) return parsed.data;
    throw new SubletError("invalid_body", "this is no report");
  }

  blobs(value: unknown): Cid[] {
    return Object.values((value as Parsed).files);
  }

  async apply(tx: Tx, job: JobRef, value: unknown): Promise<void> {
    const { key, lease, files } = value as Parsed;
    const settled = await tx.get("SELECT 1 AS one FROM sim_settled WHERE key = ?", [job.key]);
    if (settled !== null) throw new SubletError("stale_lease", "this job is settled already");
    await note(tx, job, job.revoked === undefined ? "applied" : "revoked", `${key}/${lease}`);
    for (const cid of Object.values(files)) await note(tx, job, "blob", cid);
  }

  started(tx: Tx, job: JobRef): Promise<void> {
    return note(tx, job, "started", "");
  }

  lost(tx: Tx, job: JobRef, reason: string): Promise<void> {
    return note(tx, job, "lost", reason);
  }

  ended(tx: Tx, job: JobRef, end: string, reason: string): Promise<void> {
    return note(tx, job, end, reason);
  }

  retried(tx: Tx, job: JobRef): Promise<void> {
    return note(tx, job, "retried", "");
  }
}

async function note(tx: Tx, job: JobRef, what: string, detail: string): Promise<void> {
  await tx.run("INSERT INTO sim_effects (job, lease, what, detail) VALUES (?, ?, ?, ?)", [
    job.id,
    job.lease,
    what,
    detail,
  ]);
}

export const KINDS = [new SimKind("agent", "agents"), new SimKind("evaluation", "evaluations")];
