/** @module A worker says that it has ended: its name is free at once, for whoever has its credential. */

import { SubletError } from "../home/mod.ts";
import type { Core } from "./core.ts";
import { record } from "./events.ts";
import type { WorkerCaller } from "./member.ts";

/**
 * The calling process has ended. It is granted nothing more, and another process may register in its place. What it
 * still holds (reports in its spool) waits for a successor on its home until it expires. Repeatable. Throws
 * `unknown_worker`, `superseded`, and `invalid_request` for a process that does not say which one it is.
 */
export async function leave(core: Core, caller: WorkerCaller): Promise<void> {
  const member = core.roster.check(caller);
  if (caller.incarnation === null) {
    throw new SubletError("invalid_request", "only a process that says which one it is can leave");
  }
  if (member.left) return;
  // At once: a grant in the same commit would be nobody's.
  member.left = true;
  core.offers.forget(member);
  member.poll?.("nothing");
  await core.db.write(async (tx) => {
    const at = core.wall();
    await tx.run("UPDATE lease_workers SET left_at = ? WHERE name = ? AND incarnation = ?", [
      at,
      member.name,
      caller.incarnation,
    ]);
    await record(tx, at, {
      event: "left",
      worker: member.name,
      fields: { pool: member.profile.pool, leases: [...member.live.keys()] },
    });
  });
  core.log.event("worker.left", { worker: member.name, pool: member.profile.pool });
}
