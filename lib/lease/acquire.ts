/** @module A worker asks for a job: one lease, or why there is none. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { isFull, pressure, SLOTS, type Slots } from "./gates.ts";
import type { LiveLease, WhyNoLease, WorkerCaller } from "./member.ts";
import { knownMember } from "./members.ts";
import { grantOf, type GrantRow, type WireGrant } from "./register.ts";
import { strangerError } from "./roster.ts";
import type { Undo } from "./undo.ts";
import { type HostSample, NO_LEASE, type NoLease } from "./wire.ts";

type Standing = Row & {
  incarnation: string | null;
  pool: string;
  once: number;
  once_lease: number | null;
  drained_at: number | null;
  paused_at: number | null;
  agents: number;
  evaluations: number;
  asked: number | null;
};

type Head = GrantRow & {
  job_id: number;
  kind: string;
  key: string;
  lane: string;
  campaign: number;
  priority: number;
  slots: Slots;
  timeout_ms: number | null;
};

type Asked = Row & GrantRow & { worker: string; incarnation: string | null };

const LIVE = "l.acquired_at IS NOT NULL AND l.ended_at IS NULL";
const STANDING = `
  SELECT w.incarnation, w.pool, w.once, w.once_lease, w.drained_at, w.paused_at,
    (SELECT count(*) FROM leases l WHERE l.worker = w.name AND l.slots = 'agents' AND ${LIVE}) AS agents,
    (SELECT count(*) FROM leases l WHERE l.worker = w.name AND l.slots = 'evaluations' AND ${LIVE})
      AS evaluations,
    (SELECT l.id FROM leases l WHERE l.acquire_request = ?) AS asked
  FROM lease_workers w WHERE w.name = ?`;
const ASKED = `
  SELECT l.id, j.job_cid, l.handle, l.started_at, l.worker, l.incarnation
  FROM leases l JOIN jobs j ON j.id = l.job_id WHERE l.id = ?`;
/** The first lease of a campaign in a lane: one step into an index, however long the queue is. */
export const HEAD = `
  SELECT l.id, l.job_id, l.lane, l.campaign, l.priority, l.slots, l.handle, l.started_at, j.kind, j.key, j.job_cid,
    j.timeout_ms
  FROM leases l JOIN jobs j ON j.id = l.job_id
  WHERE l.ready = 1 AND l.lane = ? AND l.campaign = ? ORDER BY l.priority DESC, l.id LIMIT 1`;

/** What a transaction decided. */
type Decision = { readonly grant: WireGrant } | { readonly refused: WhyNoLease };

/**
 * Take a queued job for the caller: the same one again for the same request id. Throws `unknown_worker`, `superseded`,
 * `permission_denied`, and `invalid_request` for a request id of another worker.
 */
export async function acquire(
  core: Core,
  caller: WorkerCaller,
  requestId: string,
  sample: HostSample,
): Promise<WireGrant | NoLease> {
  const member = await knownMember(core, caller);
  member.hear(core.clock.monotonic(), core.wall(), sample, caller.local);
  const decision = await core.write(
    (tx, undo) => decide(core, tx, undo, caller, requestId, sample),
    { repeatable: true },
  );
  if ("grant" in decision) {
    member.noLease = null;
    core.offers.taken(member);
    return decision.grant;
  }
  member.noLease = decision.refused;
  core.offers.refused(member);
  return decision.refused === "paused" ? "nothing" : decision.refused;
}

async function decide(
  core: Core,
  tx: Tx,
  undo: Undo,
  caller: WorkerCaller,
  requestId: string,
  sample: HostSample,
): Promise<Decision> {
  const standing = await tx.get<Standing>(STANDING, [requestId, caller.name]);
  if (standing === null || standing.incarnation !== caller.incarnation) {
    const known = core.roster.get(caller.name);
    throw strangerError(known ?? { name: caller.name, former: [] }, caller);
  }
  if (standing.asked !== null) return { grant: await again(tx, standing.asked, caller) };
  if (core.roster.get(caller.name)?.left === true) return { refused: "draining" };
  const pool = core.pools.get(standing.pool);
  if (standing.drained_at !== null || pool === undefined) return { refused: "draining" };
  if (standing.once === 1 && standing.once_lease !== null) return { refused: "draining" };
  if (standing.paused_at !== null) return { refused: "paused" };
  const pressed = pressure(pool, sample);
  if (pressed !== null) return { refused: pressed };
  let refused: NoLease = "nothing";
  for (const slots of SLOTS) {
    const profile = core.roster.get(caller.name)?.profile;
    if (profile === undefined) break;
    if (isFull(pool, slots, standing[slots])) {
      const waits = !core.queue.fitting(profile, slots).next().done;
      if (waits) refused = first(refused, "slots");
      continue;
    }
    for (const place of core.queue.places(profile, slots)) {
      const head = await bestOf(tx, place.lanes, place.campaign);
      if (head === null) continue;
      return { grant: await grant(core, tx, undo, caller, requestId, head, standing.once === 1) };
    }
  }
  return { refused };
}

/** Full slots only matter when something waits for them. */
function first(a: NoLease, b: NoLease): NoLease {
  return NO_LEASE.indexOf(a) < NO_LEASE.indexOf(b) ? a : b;
}

async function again(tx: Tx, lease: number, caller: WorkerCaller): Promise<WireGrant> {
  const asked = await tx.get<Asked>(ASKED, [lease]);
  if (asked?.worker === caller.name && asked.incarnation === caller.incarnation) {
    return grantOf(asked);
  }
  throw new SubletError("invalid_request", "this request id is another worker's: make a fresh one");
}

/** The first lease of `campaign` in any of `lanes`: the highest priority, then the lowest id. */
async function bestOf(tx: Tx, lanes: readonly string[], campaign: number): Promise<Head | null> {
  let best: Head | null = null;
  for (const lane of lanes) {
    const head = await tx.get<Head>(HEAD, [lane, campaign]);
    if (head === null) continue;
    const better = best === null || head.priority > best.priority ||
      head.priority === best.priority && head.id < best.id;
    if (better) best = head;
  }
  return best;
}

async function grant(
  core: Core,
  tx: Tx,
  undo: Undo,
  caller: WorkerCaller,
  requestId: string,
  head: Head,
  once: boolean,
): Promise<WireGrant> {
  const at = core.wall();
  await tx.run(
    `UPDATE leases SET state = 'acquired', ready = 0, worker = ?, incarnation = ?, acquire_request = ?,
       acquired_at = ?, renewed_at = ? WHERE id = ?`,
    [caller.name, caller.incarnation, requestId, at, at, head.id],
  );
  if (once) {
    await tx.run("UPDATE lease_workers SET once_lease = ? WHERE name = ?", [head.id, caller.name]);
  }
  // Grants of one commit must see one another, or they all go to one campaign.
  core.queue.add(head.lane, head.campaign, -1);
  core.queue.addLive(head.campaign, 1);
  undo(() => {
    core.queue.add(head.lane, head.campaign, 1);
    core.queue.addLive(head.campaign, -1);
  });
  const live: LiveLease = {
    id: head.id,
    job: head.job_id,
    kind: head.kind,
    key: head.key,
    slots: head.slots,
    campaign: head.campaign,
    worker: caller.name,
    timeoutMs: head.timeout_ms,
    renewed: core.clock.monotonic(),
  };
  tx.onCommit(() => {
    core.held(live);
    const member = core.roster.get(caller.name);
    if (once && member !== undefined) member.onceUsed = true;
    core.watchers.changed(head.job_id);
  });
  return grantOf(head);
}
