/** @module A worker's heartbeats: a loop of its own, which no stalled report or acquire can stop. */

import { messageOf } from "../home/mod.ts";
import { type Held, isUnanswered, type WorkerCore } from "./worker_core.ts";
import { Backoff, later, type Mark, markNow, since } from "./worker_time.ts";
import type { Answer } from "./wire.ts";

/** Beats once every renew period, and sooner after a beat that got no answer. */
export async function heartbeatLoop(core: WorkerCore): Promise<void> {
  const { clock, over: { signal } } = core;
  const backoff = new Backoff(core.ids);
  while (!signal.aborted) {
    await core.registered.wait(signal);
    if (signal.aborted) return;
    const sent = markNow(clock);
    const renewMs = core.timing.renew * 1000;
    if (await beat(core, sent)) {
      backoff.reset();
      await core.mustBeat.wait(clock, renewMs - since(clock, sent), signal);
    } else {
      await core.mustBeat.wait(clock, Math.min(backoff.next(), renewMs), signal);
    }
  }
}

/** One heartbeat for everything that is held; whether it was answered. */
async function beat(core: WorkerCore, sent: Mark): Promise<boolean> {
  try {
    const sample = await core.sample();
    const listed = [...core.held.values()];
    const sessions = new Map(listed.map((held) => [held.lease, held.sessionId]));
    const answers = await core.call(
      "heartbeat",
      core.timing.renew,
      (signal) => core.client.heartbeat(sessions, sample, signal),
    );
    for (const held of listed) take(core, held, answers.get(held.lease), sent);
    return true;
  } catch (error) {
    if (!isUnanswered(error)) {
      core.log.event("worker.heartbeat_failed", { error: messageOf(error) });
    }
    return false;
  }
}

/** What the server answered for `held` to the heartbeat that went out at `sent`. */
function take(core: WorkerCore, held: Held, answer: Answer | undefined, sent: Mark): void {
  if (answer === "renewed" || answer === "revoked") held.renewed = later(held.renewed, sent);
  // What has ended its job is the report's to settle: the server keeps even a late one as evidence.
  if (held.phase !== "running" || core.held.get(held.lease) !== held) return;
  if (answer === "revoked") core.revoke(held);
  if (answer === "stale" && !held.stale) {
    held.stale = true;
    core.stopJob(held, "the lease is stale: the server gave the job away");
  }
}
