import assert from "node:assert/strict";
import type { Row, Tx, Value } from "../../lib/store/mod.ts";
import { Rig } from "./engine_kit.ts";

/** Tables that grow without bound: nothing may walk them. */
const LARGE =
  /\bSCAN (l|j|n|leases|jobs|lease_events)\b(?! USING (COVERING )?INDEX (leases_live|leases_delayed|leases_ready|lease_events_stale_ids))/;

Deno.test("no call of a worker, sweep, start or view walks all jobs or leases that ever were", async () => {
  await using rig = await Rig.make();
  const seen = new Map<string, number>();
  const spy = (tx: Tx): Tx => {
    const note = (sql: string, params: readonly Value[]) => seen.set(sql, params.length);
    return {
      all: <R extends Row>(sql: string, params: readonly Value[] = []) => {
        note(sql, params);
        return tx.all<R>(sql, params);
      },
      get: <R extends Row>(sql: string, params: readonly Value[] = []) => {
        note(sql, params);
        return tx.get<R>(sql, params);
      },
      run: (sql, params = []) => {
        note(sql, params);
        return tx.run(sql, params);
      },
      onCommit: (done) => tx.onCommit(done),
    };
  };
  const { read, write } = rig.db;
  rig.db.read = (body) => read.call(rig.db, (tx) => body(spy(tx))) as never;
  rig.db.write = (body) => write.call(rig.db, (tx) => body(spy(tx))) as never;
  await everything(rig);
  assert.ok(seen.size > 30, `${seen.size} statements`);
  const walks: string[] = [];
  await write.call(rig.db, async (tx) => {
    for (const [sql, count] of seen) {
      if (/fake_log/.test(sql)) continue;
      const plan = await tx.all<{ detail: string }>(
        `EXPLAIN QUERY PLAN ${sql}`,
        Array.from({ length: count }, () => 1),
      );
      const bad = plan.filter(({ detail }) => LARGE.test(detail));
      // Walking in order of the id and stopping at a limit is no walk.
      if (bad.length > 0 && !/ORDER BY (j\.)?id( DESC)?\s+LIMIT/.test(sql)) {
        walks.push(`${sql}\n  ${bad.map(({ detail }) => detail).join("\n  ")}`);
      }
    }
  });
  assert.deepEqual(walks, []);
});

async function everything(rig: Rig): Promise<void> {
  const jobs = [await rig.submit(), await rig.submit(), await rig.submit(), await rig.submit()];
  const worker = await rig.joined("w");
  const leases = [await worker.take(), await worker.take()];
  await worker.acquire("r");
  await worker.started(leases[0] ?? 0);
  await worker.heartbeat(...leases);
  await rig.engine.cancelJob(jobs[0]?.job ?? 0, "no");
  await rig.engine.cancelJob(jobs[3]?.job ?? 0, "no");
  await rig.engine.retryJob(jobs[3]?.job ?? 0);
  await worker.messages(0, 1);
  await worker.messages(1, 0);
  await worker.report(leases[0] ?? 0);
  await worker.report(leases[0] ?? 0, undefined, "other").catch(() => {});
  await worker.lost(leases[1] ?? 0);
  await rig.clock.advance(2000);
  await worker.take();
  await rig.engine.prompt(jobs[1]?.job ?? 0, 1, "x").catch(() => {});
  await rig.engine.drain("w");
  await rig.engine.pause("w");
  await rig.engine.resume("w");
  await rig.clock.advance(400_000);
  for (const state of ["open", "reported", "dead", "cancelled"] as const) {
    await rig.engine.listJobs({ state });
    await rig.engine.listJobs({ state, campaign: 1, before: 9 });
  }
  await rig.engine.listJobs();
  await rig.engine.listJobs({ campaign: 1 });
  await rig.engine.showJob(1);
  await rig.engine.evidence(1);
  await rig.engine.events(0);
  await rig.engine.status();
  await rig.engine.worksOn(worker.caller, 1);
  await rig.restart();
}
