/** @module The kind `agent` of the lease engine's jobs: it has the shape of `JobKind` in lib/lease. */

import type { Cid } from "../cas/mod.ts";
import { type Clock, SubletError } from "../home/mod.ts";
import type { Tx } from "../store/mod.ts";
import { parseAgentReport } from "./agent_report.ts";
import type { AgentReport } from "./agent_shapes.ts";
import { answeredPrompt, sendWaiting, settlePrompts } from "./agent_store_prompts.ts";
import {
  endAgent,
  hasRun,
  loseAgent,
  recordAgentReport,
  reopenAgent,
  startAgent,
} from "./agent_store_results.ts";
import type { Holder } from "./evaluation_store_results.ts";

/** A job as the engine names it. */
interface Job extends Holder {
  readonly id: number;
  /** The agent's id. */
  readonly key: string;
}

/** What agents want to know of their jobs, and do to them. */
export interface AgentKindPorts {
  readonly clock: Clock;
  /** Called once a change of an agent is durable. `landing`: its work is to be put where it belongs. */
  changed(agent: number, job: number, landing: boolean): void;
  /** Send the prompt to the worker of a running job, in this transaction. */
  send(tx: Tx, job: number, prompt: { readonly id: number; readonly text: string }): Promise<void>;
}

/** Agents as jobs. Its calls that get a `Tx` run in the transaction that changes the lease. */
export class AgentKind {
  readonly kind = "agent";
  readonly slots = "agents";
  readonly #ports: AgentKindPorts;

  constructor(ports: AgentKindPorts) {
    this.#ports = ports;
  }

  /** Judge a report from the wire. Throws `invalid_body` or `unsafe_path`. */
  parse(report: unknown): AgentReport {
    return parseAgentReport(report);
  }

  /** Every blob that a parsed report names. */
  blobs(report: unknown): Cid[] {
    const found = report as AgentReport;
    const blobs = Object.values(found.files);
    if (found.kind === "agent_not_started") return [...new Set(blobs)];
    for (const blob of Object.values(found.workspace)) if (blob !== null) blobs.push(blob);
    if (found.work !== null) blobs.push(found.work.blob);
    if (found.session !== null) blobs.push(found.session.file);
    return [...new Set(blobs)];
  }

  /** Take a parsed report: what it brings lands after the commit. Throws `stale_lease` when the agent ended already. */
  async apply(tx: Tx, job: Job, report: unknown): Promise<void> {
    const id = idOf(job);
    const found = report as AgentReport;
    await recordAgentReport(tx, id, job, found);
    const read = found.kind === "agent_finished" ? found.read : [];
    await settlePrompts(tx, id, read, this.#ports.clock.now());
    tx.onCommit(() => this.#ports.changed(id, job.id, true));
  }

  /** A worker runs it, and gets the prompts that waited for that. Throws `stale_lease` when it ended already. */
  async started(tx: Tx, job: Job): Promise<void> {
    const id = this.#touch(tx, job);
    await startAgent(tx, id, job, this.#ports.clock.now());
    for (const prompt of await sendWaiting(tx, id)) await this.#ports.send(tx, job.id, prompt);
  }

  /** Whether a lost job may be done again: one that ran has done things already. */
  async mayRepeat(tx: Tx, job: Job): Promise<boolean> {
    return !await hasRun(tx, idOf(job));
  }

  /** An attempt was lost before it ran: it waits again. */
  async lost(tx: Tx, job: Job, _reason: string): Promise<void> {
    await loseAgent(tx, this.#touch(tx, job), job);
  }

  /** It ended without a report. */
  async ended(tx: Tx, job: Job, end: "dead" | "cancelled", reason: string): Promise<void> {
    const id = this.#touch(tx, job);
    const now = this.#ports.clock.now();
    const state = end === "dead" ? "lost" : "cancelled";
    await endAgent(tx, id, job, { state, error: reason }, now);
    await settlePrompts(tx, id, [], now);
  }

  /** It is queued again, because somebody asked to try it again. Throws `conflict` when it left something. */
  async retried(tx: Tx, job: Job): Promise<void> {
    await reopenAgent(tx, this.#touch(tx, job));
  }

  /** A worker says what became of a prompt. */
  async answered(tx: Tx, job: Job, prompt: number, error: string | null): Promise<void> {
    this.#touch(tx, job);
    await answeredPrompt(tx, prompt, error, this.#ports.clock.now());
  }

  #touch(tx: Tx, job: Job): number {
    const id = idOf(job);
    tx.onCommit(() => this.#ports.changed(id, job.id, false));
    return id;
  }
}

function idOf({ key }: Job): number {
  const id = Number(key);
  if (Number.isSafeInteger(id) && id > 0) return id;
  throw new SubletError("internal", `${JSON.stringify(key)} is no agent's id`);
}
