/** @module One lease on a worker, from the grant to its outcome. */

import { isError, isHostFault, messageOf, SubletError } from "../home/mod.ts";
import type { JobControl, JobHandle, JobRunner, Outcome } from "../job/mod.ts";
import { UnexplainedStatus } from "./http_client_refusal.ts";
import { endsWorker, type Held, isUnanswered, type WorkerCore } from "./worker_core.ts";
import { Backoff, within } from "./worker_time.ts";
import type { Grant } from "./wire.ts";

/** How long one read of a job's description may take. */
const READ_MS = 120_000;
const SECRETS_SECONDS = 30;
const SAVED_SECONDS = 30;
/** After so long a server that took nothing of what jobs write is asked again: a proxy may have answered for it. */
const SAVES_AGAIN_MS = 10 * 60_000;

/** What a lease came to, and the job's JSON as far as it was read. */
export interface Done {
  readonly outcome: Outcome;
  readonly job: unknown;
}

/** Run the job of `grant`, or take over what an earlier process of this worker left of it. Never rejects. */
export async function runLease(
  core: WorkerCore,
  held: Held,
  grant: Grant,
  how: "run" | "recover",
): Promise<Done> {
  const done = await perform(core, held, grant, how);
  const { outcome } = done;
  // A measurement that this worker cut short, for reasons of its own, says nothing: another may take it.
  const cutShort = "report" in outcome && outcome.report["stopped"] === true && !held.revoked;
  if (!cutShort) return done;
  return { ...done, outcome: { lost: messageOf(held.stopper.signal.reason) } };
}

async function perform(
  core: WorkerCore,
  held: Held,
  grant: Grant,
  how: "run" | "recover",
): Promise<Done> {
  let job: unknown = null;
  try {
    job = await readJob(core, held, grant);
    const runner = runnerOf(core, job);
    held.runner = runner;
    const control = controlOf(core, held);
    if (how === "recover") {
      const { handle, started_at: startedAt } = grant;
      return { outcome: await runner.recover(job, { handle, startedAt }, control), job };
    }
    if (control.stop.aborted) {
      return { outcome: { lost: `not started: ${messageOf(control.stop.reason)}` }, job };
    }
    return { outcome: await runner.run(job, control), job };
  } catch (error) {
    core.log.event("lease.failed", { lease: held.lease, error });
    if (isHostFault(error)) {
      core.host.faulted(error);
      const lost = `its worker's machine failed: ${messageOf(error)}`;
      return { outcome: { lost, hostFault: true }, job };
    }
    return { outcome: { lost: messageOf(error) }, job };
  }
}

/** The job's JSON, which went through the store. Tried until the store answers or the job must stop. */
async function readJob(core: WorkerCore, held: Held, grant: Grant): Promise<unknown> {
  const { signal } = held.stopper;
  const backoff = new Backoff(core.ids);
  while (true) {
    try {
      const get = () => core.options.cas.get(grant.job_cid);
      const bytes = await within(core.clock, READ_MS, signal, "the read of the job", get);
      if (bytes === null) {
        throw new SubletError("not_found", `the CAS lacks the job ${grant.job_cid}`);
      }
      return parseJob(grant, bytes);
    } catch (error) {
      if (signal.aborted) throw new SubletError("cancelled", messageOf(signal.reason));
      if (!isUnanswered(error)) throw error;
      core.log.event("lease.job_unread", { lease: held.lease, error: messageOf(error) });
      await core.clock.sleep(backoff.next(), signal);
    }
  }
}

function parseJob(grant: Grant, bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new SubletError("invalid_body", `the job ${grant.job_cid} is no JSON`, { cause });
  }
}

/** The runner of a job's kind. */
export function runnerOf(core: WorkerCore, job: unknown): JobRunner {
  const kind = kindOf(job);
  const runner = core.options.runners.find((each) => each.kind === kind);
  if (runner === undefined) {
    const known = core.options.runners.map((each) => each.kind).join(", ");
    throw new SubletError(
      "invalid_body",
      `this worker runs no job of kind ${JSON.stringify(kind)}, only: ${known}`,
    );
  }
  return runner;
}

function kindOf(job: unknown): unknown {
  return typeof job === "object" && job !== null && "kind" in job ? job.kind : null;
}

function controlOf(core: WorkerCore, held: Held): JobControl {
  return {
    lease: held.lease,
    stop: held.stopper.signal,
    leave: core.leaving.signal,
    ending: core.ending.signal,
    started: (handle, sessionId) => started(core, held, handle, sessionId),
    identified: (sessionId) => {
      held.sessionId = sessionId;
      core.mustBeat.set();
    },
    secrets: (signal) => secretsOf(core, held, signal),
    saved: (part) => saved(core, held, part),
  };
}

/** The secrets of a job. A server that is away for a moment is asked again; a refusal is the job's to tell. */
async function secretsOf(
  core: WorkerCore,
  held: Held,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const { client } = core;
  if (client.secrets === undefined) return new Map();
  const backoff = new Backoff(core.ids);
  while (true) {
    try {
      return await core.call(
        "secrets",
        SECRETS_SECONDS,
        async (own) => await client.secrets?.(held.lease, own) ?? new Map<string, string>(),
        signal,
      );
    } catch (error) {
      if (signal.aborted) throw new SubletError("cancelled", messageOf(signal.reason));
      if (!isUnanswered(error)) throw error;
      await core.clock.sleep(backoff.next(), signal);
    }
  }
}

/** One try to tell the server what a job wrote. */
async function saved(
  core: WorkerCore,
  held: Held,
  part: Parameters<NonNullable<JobControl["saved"]>>[0],
): Promise<boolean> {
  const { client } = core;
  const none = core.clock.monotonic() < core.savesFrom;
  if (none || held.stale || client.saved === undefined) return false;
  try {
    await core.call(
      "saved",
      SAVED_SECONDS,
      async (signal) => await client.saved?.({ ...part, lease: held.lease }, signal),
    );
    return true;
  } catch (error) {
    if (error instanceof UnexplainedStatus || isError(error, "not_found", "method_not_allowed")) {
      core.savesFrom = core.clock.monotonic() + SAVES_AGAIN_MS;
      core.log.event("worker.saves_nothing", { error: messageOf(error) });
      return false;
    }
    if (isUnanswered(error)) throw error;
    core.log.event("lease.not_saved", { lease: held.lease, stream: part.stream, error });
    return false;
  }
}

/**
 * Tell the server where the job runs; false when the lease is stale. A job does not wait for a server that is away: it
 * goes on while the server is told in the background, and is stopped if the lease turns out to be stale.
 */
async function started(
  core: WorkerCore,
  held: Held,
  handle: JobHandle,
  sessionId: string | null,
): Promise<boolean> {
  held.sessionId = sessionId ?? held.sessionId;
  if (!await told(core, held, handle, sessionId)) void keepTelling(core, held, handle, sessionId);
  return !held.stale;
}

/** One try; whether the server answered. */
async function told(
  core: WorkerCore,
  held: Held,
  handle: JobHandle,
  sessionId: string | null,
): Promise<boolean> {
  if (held.stale) return true;
  try {
    await core.call(
      "started",
      core.timing.renew,
      (signal) => core.client.started(held.lease, handle, sessionId, signal),
    );
    return true;
  } catch (error) {
    if (isError(error, "stale_lease")) {
      held.stale = true;
      core.stopJob(held, "the lease is stale: the server gave the job away");
      return true;
    }
    if (endsWorker(error)) return true;
    core.log.event("lease.started_untold", { lease: held.lease, error: messageOf(error) });
    // Any other refusal is for good; the job goes on, and its report says where it ran.
    return !isUnanswered(error) && !isError(error, "unknown_worker");
  }
}

async function keepTelling(
  core: WorkerCore,
  held: Held,
  handle: JobHandle,
  sessionId: string | null,
): Promise<void> {
  const { signal } = core.over;
  const backoff = new Backoff(core.ids);
  do {
    await core.clock.sleep(backoff.next(), signal);
    if (signal.aborted || held.phase !== "running") return;
  } while (!await told(core, held, handle, sessionId));
}
