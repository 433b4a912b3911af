/** @module What an operator does with a worker: drain it, pause it, let it work again, forget it, prompt its job. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { record } from "./events.ts";
import { isLive, newestLease } from "./fence.ts";
import { mail, takeBackDrain } from "./mail.ts";
import type { Member } from "./member.ts";
import { memberNamed } from "./members.ts";

/**
 * The worker takes no more leases, and leaves once it has reported those it holds; those that it holds after `seconds`
 * are taken from it, when seconds are given. Repeatable, with another deadline or reason.
 */
export function drain(
  core: Core,
  name: string,
  reason: string | null,
  seconds: number | null,
): Promise<void> {
  return change(core, name, async (tx, at) => {
    const by = seconds === null ? null : at + Math.ceil(seconds * 1000);
    const first = await tx.run(
      "UPDATE lease_workers SET drained_at = ? WHERE name = ? AND drained_at IS NULL",
      [at, name],
    ) > 0;
    await tx.run(
      `UPDATE lease_workers SET standing_reason = coalesce(?, standing_reason), drain_by = coalesce(?, drain_by)
       WHERE name = ?`,
      [reason, by, name],
    );
    if (first) {
      await mail(core, tx, name, { kind: "drain" });
      await record(tx, at, { event: "drained", worker: name, fields: { reason, seconds } });
    }
    return (member) => {
      if (first) member.drainedAt = at;
      member.standingReason = reason ?? member.standingReason;
      if (by === null || seconds === null) return;
      member.drainBy = by;
      core.drains.add(name, seconds * 1000);
    };
  });
}

/** The worker takes no more leases until {@linkcode resume}; it stays. Repeatable. */
export function pause(core: Core, name: string, reason: string | null): Promise<void> {
  return change(core, name, async (tx, at) => {
    const changed = await tx.run(
      `UPDATE lease_workers SET paused_at = ?, standing_reason = coalesce(?, standing_reason)
       WHERE name = ? AND paused_at IS NULL`,
      [at, reason, name],
    );
    if (changed === 0) return null;
    await record(tx, at, { event: "paused", worker: name, fields: { reason } });
    return (member) => {
      member.pausedAt = at;
      member.standingReason = reason ?? member.standingReason;
    };
  });
}

/** The worker may take leases again, drained or paused. Repeatable. */
export function resume(core: Core, name: string): Promise<void> {
  return change(core, name, async (tx, at) => {
    const changed = await tx.run(
      `UPDATE lease_workers SET drained_at = NULL, paused_at = NULL, standing_reason = NULL, drain_by = NULL
       WHERE name = ? AND (drained_at IS NOT NULL OR paused_at IS NOT NULL)`,
      [name],
    );
    if (changed === 0) return null;
    await takeBackDrain(core, tx, name);
    await record(tx, at, { event: "resumed", worker: name });
    return (member) => {
      member.drainedAt = null;
      member.pausedAt = null;
      member.standingReason = null;
      member.drainBy = null;
      core.drains.remove(name);
    };
  });
}

/** Change the row of the worker `name`, and what memory has of it once that is durable. */
async function change(
  core: Core,
  name: string,
  body: (tx: Tx, at: number) => Promise<((member: Member) => void) | null>,
): Promise<void> {
  memberNamed(core, name);
  await core.db.write(async (tx) => {
    const after = await body(tx, core.wall());
    tx.onCommit(() => {
      const member = core.roster.get(name);
      if (after === null || member === undefined) return;
      after(member);
      core.offers.reconsider(member);
      if (member.poll !== null && core.offers.claim(member)) member.poll("work");
    });
  });
}

/** Forget a worker that holds nothing and is silent. Throws `not_found` and `conflict`. */
export async function remove(core: Core, name: string): Promise<void> {
  const member = memberNamed(core, name);
  await core.db.write(async (tx) => {
    const held = await tx.get<Row & { leases: number }>(
      `SELECT count(*) AS leases FROM leases
       WHERE worker = ? AND acquired_at IS NOT NULL AND ended_at IS NULL`,
      [name],
    );
    if (held !== null && held.leases > 0) {
      throw new SubletError(
        "conflict",
        `worker ${name} holds ${held.leases} leases: drain it first (sublet worker drain ${name})`,
      );
    }
    if (!member.left && core.clock.monotonic() - member.heard < core.graceOf(member)) {
      throw new SubletError("conflict", `worker ${name} still calls: stop it first`);
    }
    await tx.run("DELETE FROM lease_workers WHERE name = ?", [name]);
    tx.onCommit(() => {
      core.offers.forget(member);
      core.roster.remove(member);
      member.poll?.("nothing");
    });
  });
}

/**
 * Send the text to the job, which its worker gives to what runs there, in the caller's transaction; the message's id.
 * Throws `conflict`.
 */
export async function prompt(
  core: Core,
  tx: Tx,
  job: number,
  id: number,
  text: string,
): Promise<number> {
  const lease = await newestLease(tx, job);
  if (lease === null) throw new SubletError("not_found", `there is no job ${job}`);
  if (!isLive(lease) || lease.worker === null) {
    throw new SubletError(
      "conflict",
      `job ${job} does not run: its lease ${lease.id} is ${lease.state}`,
    );
  }
  await record(tx, core.wall(), {
    event: "prompted",
    job,
    lease: lease.id,
    worker: lease.worker,
    fields: { prompt: id, text },
  });
  return await mail(core, tx, lease.worker, {
    kind: "prompt",
    lease: lease.id,
    prompt: { id, text },
  });
}
