/** @module The report of a lost agent that came too late to count: somebody says that it is to be taken all the same. */

import { type Cas, type Cid, parseCid } from "../cas/mod.ts";
import { type Clock, SubletError } from "../home/mod.ts";
import type { Db, Tx } from "../store/mod.ts";
import { parseAgentReport } from "./agent_report.ts";
import type { AgentReport } from "./agent_shapes.ts";
import { agentOfJob } from "./agent_store.ts";
import { settlePrompts } from "./agent_store_prompts.ts";
import { recordLateReport } from "./agent_store_results.ts";

/** A report that was refused, in the shape of `Evidence` of lib/lease. */
export interface LateReport {
  readonly lease: number | null;
  readonly worker: string | null;
  readonly report?: unknown;
  /** Its address, when it is long. */
  readonly report_cid?: string;
}

/** What of the lease engine a recovery tells, in the shape of lib/lease. */
export interface RecoveryQueue {
  /** What the last lease of `job` left is taken, in this transaction. */
  recovered(job: number, tx: Tx): Promise<void>;
}

/** What a recovery is made of. */
export interface RecoveryDeps {
  readonly db: Db;
  readonly cas: Cas;
  readonly clock: Clock;
  /** Every blob that a report names. */
  readonly blobs: (report: AgentReport) => Cid[];
}

/** Takes what came too late. */
export class AgentRecovery {
  readonly #deps: RecoveryDeps;
  #queue: RecoveryQueue | null = null;

  constructor(deps: RecoveryDeps) {
    this.#deps = deps;
  }

  bind(queue: RecoveryQueue): void {
    this.#queue = queue;
  }

  /** Take the newest of `late` that is of the agent's last lease; the agent, which is to land now. */
  async take(job: number, late: readonly LateReport[]): Promise<number> {
    const { db, cas, clock, blobs } = this.#deps;
    const queue = this.#queue;
    if (queue === null) throw new SubletError("internal", "agents are bound to no queue");
    const agent = await db.read((tx) => agentOfJob(tx, job));
    if (agent === null) throw new SubletError("not_found", `job ${job} is no agent's`);
    if (agent.state !== "lost" && agent.state !== "cancelled") {
      throw new SubletError(
        "conflict",
        `agent ${agent.agent} was not lost (it is ${agent.state}), or what it left is taken already: see 'sublet job show ${job}'`,
      );
    }
    const { worker, report } = await newestLate(cas, late, agent.lease);
    const missing = await cas.missing(blobs(report));
    if (missing.length > 0) {
      throw new SubletError("missing_blobs", `the store lacks ${missing.length} blobs of it`);
    }
    // It stays cancelled, as one does whose report comes in time.
    const revoked = agent.state === "cancelled" ? { revoked: agent.error ?? "cancelled" } : {};
    await db.write(async (tx) => {
      const holder = { lease: agent.lease ?? 0, worker, ...revoked };
      await recordLateReport(tx, agent.agent, holder, report);
      const read = report.kind === "agent_finished" ? report.read : [];
      await settlePrompts(tx, agent.agent, read, clock.now());
      await queue.recovered(job, tx);
    });
    return agent.agent;
  }
}

/** The newest of `late` that is of `lease`, read and judged. Throws `not_found` when there is none. */
async function newestLate(
  cas: Cas,
  late: readonly LateReport[],
  lease: number | null,
): Promise<{ readonly worker: string | null; readonly report: AgentReport }> {
  for (const { lease: of, worker, report, report_cid: cid } of late.toReversed()) {
    if (of !== lease || lease === null) continue;
    const value = cid === undefined ? report : await read(cas, cid);
    return { worker, report: parseAgentReport(value) };
  }
  throw new SubletError(
    "not_found",
    "its last worker has handed nothing in: start the worker again with its home, and it does",
  );
}

async function read(cas: Cas, cid: string): Promise<unknown> {
  const bytes = await cas.get(parseCid(cid));
  if (bytes !== null) return JSON.parse(new TextDecoder().decode(bytes));
  throw new SubletError("not_found", `the store lost the report ${cid}`);
}
