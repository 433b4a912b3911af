/** @module A worker says that it lives and what it runs: its leases are renewed, in the server's memory. */

import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { record } from "./events.ts";
import type { Member, WorkerCaller } from "./member.ts";
import { knownMember } from "./members.ts";
import type { Answer, HostSample } from "./wire.ts";

type Held = Row & {
  id: number;
  incarnation: string | null;
  revoked_at: number | null;
  session_id: string | null;
};

// The fence, for all leases of a worker at once: live, and no newer lease of the job.
const HELD = `
  SELECT l.id, l.incarnation, l.revoked_at, l.session_id FROM leases l
  WHERE l.worker = ? AND l.acquired_at IS NOT NULL AND l.ended_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM leases n WHERE n.job_id = l.job_id AND n.id > l.id)`;

/** Longest session id that is kept. */
const MAX_SESSION_ID = 500;

/**
 * Renew those of `leases` (id to session id) that the caller holds, and say of each what it is. It runs in the write
 * lane, so it and the expiry of a lease never both apply, and changes nothing in the database unless something is new.
 */
export async function heartbeat(
  core: Core,
  caller: WorkerCaller,
  leases: ReadonlyMap<number, string | null>,
  sample: HostSample,
): Promise<Map<number, Answer>> {
  const member = await knownMember(core, caller);
  member.hear(core.clock.monotonic(), core.wall(), sample, caller.local);
  core.offers.reconsider(member);
  if (leases.size === 0 && !member.unreachable) return new Map();
  return await core.db.write((tx) => renew(core, tx, member, caller, leases));
}

async function renew(
  core: Core,
  tx: Tx,
  member: Member,
  caller: WorkerCaller,
  leases: ReadonlyMap<number, string | null>,
): Promise<Map<number, Answer>> {
  const now = core.clock.monotonic();
  const held = new Map<number, Held>();
  for (const row of await tx.all<Held>(HELD, [caller.name])) {
    if (row.incarnation === caller.incarnation) held.set(row.id, row);
  }
  const answers = new Map<number, Answer>();
  for (const [id, session] of leases) {
    const row = held.get(id);
    if (row === undefined) {
      answers.set(id, "stale");
      continue;
    }
    const live = core.roster.live.get(id);
    if (live !== undefined) live.renewed = now;
    if (session !== null && session !== row.session_id) await saveSession(tx, id, session);
    answers.set(id, row.revoked_at === null ? "renewed" : "revoked");
  }
  if (member.unreachable) await backAgain(core, tx, member);
  return answers;
}

async function saveSession(tx: Tx, lease: number, session: string): Promise<void> {
  await tx.run("UPDATE leases SET session_id = ? WHERE id = ?", [
    session.replaceAll("\0", " ").slice(0, MAX_SESSION_ID),
    lease,
  ]);
}

async function backAgain(core: Core, tx: Tx, member: Member): Promise<void> {
  await record(tx, core.wall(), {
    event: "joined",
    worker: member.name,
    fields: { pool: member.profile.pool, after: "unreachable" },
  });
  tx.onCommit(() => {
    member.unreachable = false;
    core.log.event("worker.joined", { worker: member.name, pool: member.profile.pool });
  });
}
