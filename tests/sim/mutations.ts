/** @module Faults put into the lease code, each of which the simulation must see. */

/** A replacement of one text in one file of `lib/lease`; it must be there. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly put: string;
}

/** A fault. */
export interface Mutation {
  readonly name: string;
  readonly edits: readonly Edit[];
}

function mutation(
  name: string,
  ...edits: readonly (readonly [string, string, string])[]
): Mutation {
  return { name, edits: edits.map(([file, find, put]) => ({ file, find, put })) };
}

/** Every fault. */
export const MUTATIONS: readonly Mutation[] = [
  mutation("the fence does not ask whether the lease is over", [
    "fence.ts",
    "AND acquired_at IS NOT NULL AND ended_at IS NULL\n",
    "AND acquired_at IS NOT NULL\n",
  ]),
  mutation("a worker's loss is believed of a lease that is over", [
    "fence.ts",
    "if (!isLive(lease)) return `it is ${lease.state}`;",
    "",
  ]),
  mutation("a report that is sent again is refused", [
    "report.ts",
    "row.report_request === requestId",
    "row.report_request === `${requestId}!`",
  ]),
  mutation("a report's blobs are not looked for", [
    "report.ts",
    "const missing = blobs.length === 0 ? [] : await core.cas.missing(blobs);",
    "const missing: Cid[] = await Promise.resolve([]);",
  ]),
  mutation("a revoked job's report is a success", [
    "report.ts",
    "CASE WHEN reason IS NULL THEN 'reported' ELSE 'cancelled' END",
    "'reported'",
  ]),
  mutation("the kind is not told that a job was cancelled", [
    "report.ts",
    "revoked === null ? ref : { ...ref, revoked }",
    "ref",
  ]),
  mutation("a report is not applied", [
    "report.ts",
    "  await kindOf(core, facts).apply(",
    "  if (core.state === 'new') await kindOf(core, facts).apply(",
  ]),
  mutation("leases expire when their worker is unreachable", [
    "sweep.ts",
    "if (now - lease.renewed >= core.tolerationOf(lease)) due.push(lease);",
    "if (now - lease.renewed >= core.graceMs) due.push(lease);",
  ], ["sweep.ts", "if (silence < core.tolerationOf(lease)) return null;", ""]),
  mutation("leases never expire", [
    "sweep.ts",
    "if (silence < core.tolerationOf(lease)) return null;",
    "if (silence > 0) return null;",
  ]),
  mutation("a heartbeat renews nothing", [
    "heartbeat.ts",
    "if (live !== undefined) live.renewed = now;",
    "",
  ]),
  mutation("a stale lease is answered as renewed", [
    "heartbeat.ts",
    'answers.set(id, "stale");',
    'answers.set(id, "renewed");',
  ]),
  mutation("a server that was away expires everybody", [
    "sweep.ts",
    "return late > graceMs || asleep > graceMs;",
    "return late > graceMs * 1e6 || asleep > graceMs * 1e6;",
  ]),
  mutation("a server that starts remembers when leases were renewed", [
    "adopt.ts",
    "worker, renewed: now });",
    "worker, renewed: now - core.tolerationMs / 2 });",
  ]),
  mutation("a server that starts forgets live leases", [
    "adopt.ts",
    "    await adoptLive(core, tx);\n",
    "",
  ]),
  mutation("a server that starts forgets what waits", [
    "adopt.ts",
    "    await adoptQueue(core, tx);\n",
    "",
  ]),
  mutation("a server that starts forgets unread messages", [
    "adopt.ts",
    "    await adoptMail(core, tx);\n",
    "",
  ]),
  mutation("ids of leases come back after a restore", [
    "adopt.ts",
    "    await adoptIds(core, tx);\n",
    "    core.newestLease = (await tx.get<Row & { n: number }>('SELECT coalesce(max(id), 0) AS n FROM leases'))?.n ?? 0;\n",
  ]),
  mutation("an acquire that is repeated is granted another lease", [
    "acquire.ts",
    "if (standing.asked !== null) return",
    "if (standing.asked !== null && core.state === 'new') return",
  ]),
  mutation("a drained worker gets leases", [
    "acquire.ts",
    "standing.drained_at !== null || pool === undefined",
    "pool === undefined",
  ]),
  mutation("a paused worker gets leases", [
    "acquire.ts",
    'if (standing.paused_at !== null) return { refused: "paused" };',
    "",
  ]),
  mutation("a once-worker gets leases without end", [
    "acquire.ts",
    'if (standing.once === 1 && standing.once_lease !== null) return { refused: "draining" };',
    "",
  ]),
  mutation("slots are not counted", [
    "acquire.ts",
    "if (isFull(pool, slots, standing[slots])) {",
    "if (isFull(pool, slots, standing[slots] - 1)) {",
  ]),
  mutation("a grant that is undone still counts", [
    "acquire.ts",
    "  undo(() => {\n    core.queue.add(head.lane, head.campaign, 1);",
    "  undo(() => {\n    core.queue.add(head.lane, head.campaign, 0);",
  ]),
  mutation("any process of a name is granted leases", [
    "acquire.ts",
    "standing === null || standing.incarnation !== caller.incarnation",
    "standing === null",
  ], ["roster.ts", "if (member.incarnation !== caller.incarnation) throw", "if (1 > 2) throw"]),
  mutation("a living process is replaced by another of its name", [
    "register.ts",
    "if (leftMs <= 0) return;",
    "if (leftMs <= 1e9) return;",
  ]),
  mutation("a register renews nothing", [
    "register.ts",
    "if (live !== undefined) live.renewed = now;",
    "",
  ]),
  mutation("a lost job is tried without end", [
    "ending.ts",
    "const isLast = !excused && lease.attempt >= lease.max_attempts ||",
    "const isLast = !excused && lease.attempt >= lease.max_attempts + 100 ||",
  ]),
  mutation("attempts are not counted", [
    "ending.ts",
    "attempt: excused ? lease.attempt : lease.attempt + 1,",
    "attempt: lease.attempt,",
  ]),
  mutation("a fault of a machine is an attempt", [
    "ending.ts",
    'by === "machine" && lease.host_faults',
    'by === "machine" && core.state === "new" && lease.host_faults',
  ]),
  mutation("every loss is taken for a fault of a machine", [
    "ending.ts",
    'by === "machine" && lease.host_faults',
    "lease.host_faults",
  ]),
  mutation("a server that starts gives out ids from anywhere", [
    "adopt.ts",
    "byTime > row.newest",
    "byTime < row.newest",
  ]),
  mutation("a spool that cannot be read is taken for empty", [
    "worker.ts",
    "        await core.clock.sleep(backoff.next(), core.over.signal);\n      }\n    }\n    return [];",
    "        return [];\n      }\n    }\n    return [];",
  ]),
  mutation("a report that cannot be read is asked for for ever", [
    "report.ts",
    "if (live.refused.times >= MAX_REFUSED) {",
    "if (live.refused.times < 0) {",
  ]),
  mutation("a revoked job that is lost is queued again", [
    "ending.ts",
    "if (lease.revoked_at !== null) {",
    "if (lease.revoked_at !== null && core.state === 'new') {",
  ]),
  mutation("the kind is not told that a job ended", [
    "ending.ts",
    "  await core.kinds.get(lease.kind)?.ended(tx, refOf(lease), end, reason);\n",
    "",
  ]),
  mutation("what was queued is told to nobody", [
    "submit.ts",
    "else core.takeable(next.lane, next.campaign);",
    "",
  ]),
  mutation("a job that waits to be tried again is forgotten", [
    "submit.ts",
    "if (waits) core.delays.add(lease, core.clock.monotonic() + next.delayMs);\n    else ",
    "if (!waits) ",
  ]),
  mutation("a process that ended is told of before it is known", [
    "leave.ts",
    "    await record(tx, at, {",
    "    if (core.state === 'new') await record(tx, at, {",
  ]),
  mutation("a revoke is not written down", [
    "cancel.ts",
    'await tx.run("UPDATE jobs SET reason = ? WHERE id = ?", [reason, job]);',
    "",
  ]),
  mutation("a cancelled job stays in the queue", [
    "cancel.ts",
    '  await endLease(core, tx, lease, "cancelled", { cancelled: reason });\n',
    "",
  ]),
  mutation("a cursor passes prompts that a restore made unanswered", [
    "mail.ts",
    "Math.min(read, (left?.lowest ?? Infinity) - 1)",
    "read",
  ]),
  mutation("an expired lease leaves its job open", [
    "ending.ts",
    "  await queueLease(core, tx, {\n    job: lease.job_id,\n    attempt: excused",
    "  if (core.state === 'new') await queueLease(core, tx, {\n    job: lease.job_id,\n    attempt: excused",
  ]),
  mutation("a worker stops its jobs too late", [
    "worker_core.ts",
    "const limit = (toleration - 2 * renew) * 1000;",
    "const limit = (toleration + 2 * renew) * 1000;",
  ]),
  mutation("a worker's silence does not count while its machine is suspended", [
    "worker_time.ts",
    "return Math.max(clock.monotonic() - mark.monotonic, clock.now() - mark.wall);",
    "return clock.monotonic() - mark.monotonic;",
  ]),
  mutation("a lease counts from when its grant came", [
    "worker_acquire.ts",
    "this.start(answer, asked)",
    "this.start(answer, markNow(core.clock))",
  ]),
  mutation("a held lease counts from when its worker is back", [
    "worker.ts",
    "const asked = this.#core.joined;",
    "const asked = markNow(this.#core.clock);",
  ]),
  mutation("a stale lease's job goes on", [
    "worker_heartbeat.ts",
    'if (answer === "stale" && !held.stale) {',
    'if (answer === "stale" && held.stale) {',
  ]),
  mutation("a lease that a worker has is started again when it is told so again", [
    "worker.ts",
    "      if (this.#core.held.has(grant.lease)) continue;\n",
    "",
  ]),
  mutation("a cursor passes a prompt that is not answered", [
    "worker_messages.ts",
    "Math.min(highest, lowest - 1)",
    "highest",
  ]),
  mutation("a worker that the server forgot stays away", [
    "worker_core.ts",
    "      this.mustRegister.set();\n",
    "",
  ]),
  mutation("an orphan spins until it is gone", [
    "worker.ts",
    "const ms = this.#leaving === null ? this.#orphanMs() : null;",
    "const ms = this.#orphanMs();",
  ]),
  mutation("a page of a proxy ends a worker", [
    "http_client_refusal.ts",
    "  if (body !== null) {\n",
    "  if (status > 0) {\n",
  ]),
];
