import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import type { Db } from "../../lib/store/mod.ts";
import { FakeKind, type FakeWorker, Rig } from "./engine_kit.ts";

/** Numbers that follow from a seed (mulberry32). */
function seeded(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const POOLS = { lab: { agents: 1, evaluations: 2 }, gpu: { evaluations: 3 } };
const STEPS = 160;

/** A worker's own memory of what it holds, as far as it was answered. */
interface Actor {
  readonly worker: FakeWorker;
  readonly holds: Set<number>;
  readonly reported: Set<number>;
}

/** Random calls of several workers at once, with failed commits, lost answers, crashes and passing time. */
class Story {
  readonly #pick: (below: number) => number;
  readonly #actors: Actor[] = [];
  /** Of a hundred commits so many fail, once their bodies ran. */
  failing = 0;
  accepted = 0;

  constructor(readonly rig: Rig, seed: number) {
    this.#pick = seeded(seed);
    this.#breakCommits(rig.db);
  }

  #breakCommits(db: Db): void {
    const write = db.write.bind(db);
    db.write = async (body) =>
      await write(async (tx) => {
        const value = await body(tx);
        if (this.#pick(100) < this.failing) {
          throw new SubletError("unavailable", "the disk is full");
        }
        return value;
      });
  }

  async tell(): Promise<void> {
    for (const [name, pool] of [["a", "lab"], ["b", "lab"], ["c", "gpu"]] as const) {
      const worker = this.rig.worker(name);
      await worker.register({ pool });
      this.#actors.push({ worker, holds: new Set(), reported: new Set() });
    }
    for (let step = 0; step < STEPS; step++) {
      this.failing = this.#pick(5) === 0 ? 40 : 0;
      await Promise.all(Array.from({ length: 1 + this.#pick(4) }, () => this.#act()));
      if (this.#pick(25) === 0) await this.#restart();
      await check(this.rig, this.failing === 0);
    }
    await this.#settle();
  }

  async #act(): Promise<void> {
    const actor = this.#actors[this.#pick(this.#actors.length)];
    if (actor === undefined) return;
    try {
      await this.#move(actor, this.#pick(100));
    } catch (error) {
      if (!(error instanceof SubletError)) throw error;
      const expected = ["stale_lease", "unavailable", "conflict", "not_found", "internal"];
      assert.ok(expected.includes(error.code), `${error.code}: ${error.message}`);
    }
  }

  async #move(actor: Actor, chance: number): Promise<void> {
    const { worker, holds } = actor;
    const { rig } = this;
    const some = [...holds][this.#pick(Math.max(1, holds.size))] ?? 1 + this.#pick(40);
    if (chance < 20) return void await this.#submit();
    if (chance < 42) return await this.#take(actor);
    if (chance < 52) return await worker.started(some);
    if (chance < 65) return await this.#report(actor, some);
    if (chance < 70) return await worker.lost(some).then(() => void holds.delete(some));
    if (chance < 82) return await this.#beat(actor);
    if (chance < 86) return void await rig.engine.cancelJob(1 + this.#pick(30), "no");
    if (chance < 89) return void await rig.engine.retryJob(1 + this.#pick(30));
    if (chance < 92) return void await worker.messages(0, 0);
    await rig.clock.advance([1000, 20_000, 60_000, 310_000][this.#pick(4)] ?? 0);
  }

  /** The server ends, in order or not, and another starts. */
  async #restart(): Promise<void> {
    this.failing = 0;
    await this.rig.restart(this.#pick(2) === 0);
  }

  #submit(): Promise<unknown> {
    const kinds = ["fake", "session"];
    const requires = [{}, { pool: "gpu" }, { runner: "process" }][this.#pick(3)] ?? {};
    return this.rig.submit({
      kind: kinds[this.#pick(2)] ?? "fake",
      key: `k${this.#pick(60)}`,
      requires,
      campaign: this.#pick(3),
      priority: this.#pick(3),
    });
  }

  async #take({ worker, holds }: Actor): Promise<void> {
    const request = crypto.randomUUID();
    const grant = await worker.acquire(request);
    // Sometimes the answer is lost, and the request comes again.
    const again = this.#pick(3) === 0 ? await worker.acquire(request) : grant;
    if (typeof grant === "string") return;
    assert.equal(typeof again === "string" ? again : again.lease, grant.lease);
    holds.add(grant.lease);
  }

  async #report(actor: Actor, lease: number): Promise<void> {
    await actor.worker.report(lease);
    this.accepted += actor.reported.has(lease) ? 0 : 1;
    actor.reported.add(lease);
    actor.holds.delete(lease);
    if (this.#pick(3) === 0) await actor.worker.report(lease);
  }

  async #beat({ worker, holds }: Actor): Promise<void> {
    for (const [lease, answer] of await worker.heartbeat(...holds)) {
      if (answer === "stale") holds.delete(lease);
    }
  }

  /** The faults stop: every job comes to an end. */
  async #settle(): Promise<void> {
    this.failing = 0;
    for (let round = 0; round < 200; round++) {
      const { queued, running, delayed } = (await this.rig.engine.status()).jobs;
      if (queued + running + delayed === 0) return;
      for (const { worker } of this.#actors) {
        for (let grant = await worker.acquire(); typeof grant !== "string";) {
          await worker.report(grant.lease);
          this.accepted++;
          grant = await worker.acquire();
        }
      }
      await this.rig.clock.advance(60_000);
      for (const { worker } of this.#actors) await worker.heartbeat();
    }
    assert.fail(JSON.stringify(await this.rig.engine.listJobs({ state: "open" })));
  }
}

/** What must hold after every step. */
async function check(rig: Rig, countsToo: boolean): Promise<void> {
  const rows = await rig.db.read(async (tx) => ({
    twice: await tx.all(
      "SELECT lease FROM fake_log WHERE what IN ('applied', 'revoked') GROUP BY lease HAVING count(*) > 1",
    ),
    open: await tx.all(
      "SELECT job_id FROM leases WHERE ended_at IS NULL GROUP BY job_id HAVING count(*) > 1",
    ),
    orphans: await tx.all(
      `SELECT id FROM jobs j WHERE (ended_at IS NULL) <>
         EXISTS (SELECT 1 FROM leases l WHERE l.job_id = j.id AND l.ended_at IS NULL)`,
    ),
    unmarked: await tx.all(
      `SELECT l.id FROM leases l WHERE l.state = 'reported'
         AND NOT EXISTS (SELECT 1 FROM fake_log f WHERE f.lease = l.id AND f.what IN ('applied', 'revoked'))`,
    ),
    success: await tx.all("SELECT id FROM jobs WHERE state = 'reported' AND reason IS NOT NULL"),
    live: await tx.all<{ worker: string; slots: "agents" | "evaluations"; count: number }>(
      `SELECT worker, slots, count(*) AS count FROM leases
       WHERE acquired_at IS NOT NULL AND ended_at IS NULL GROUP BY worker, slots`,
    ),
    ready: await tx.get<{ count: number }>("SELECT count(*) AS count FROM leases WHERE ready = 1"),
    delayed: await tx.get<{ count: number }>(
      "SELECT count(*) AS count FROM leases WHERE ready_at IS NOT NULL",
    ),
  }));
  const { twice, open, orphans, unmarked, success, live, ready, delayed } = rows;
  assert.deepEqual({ twice, open, orphans, unmarked, success }, {
    twice: [],
    open: [],
    orphans: [],
    unmarked: [],
    success: [],
  });
  const views = rig.engine.listWorkers();
  for (const { worker, slots, count } of live) {
    const view = views.find((each) => each.worker === worker);
    assert.ok(view !== undefined);
    assert.ok(count <= (view.slots[slots] ?? Infinity), `${worker} has ${count} ${slots}`);
    assert.equal(view[slots], count, `memory of ${worker} is right`);
  }
  if (!countsToo) return;
  const { jobs } = await rig.engine.status();
  assert.equal(jobs.queued, ready?.count);
  assert.equal(jobs.delayed, delayed?.count);
  assert.equal(jobs.running, live.reduce((sum, { count }) => sum + count, 0));
}

/** How many seeds are run: `SUBLET_RANDOM_SEEDS`, from `SUBLET_RANDOM_SEED` on. */
const FIRST = Number(Deno.env.get("SUBLET_RANDOM_SEED") ?? 0);
const SEEDS = Number(Deno.env.get("SUBLET_RANDOM_SEEDS") ?? 16);

Deno.test("whatever workers, crashes and failing commits do, nothing counts twice or is lost", async (t) => {
  for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
    await t.step(`seed ${seed}`, async () => {
      await using rig = await Rig.make({
        pools: POOLS,
        kinds: [new FakeKind(), new FakeKind("session", "agents")],
      });
      const story = new Story(rig, seed);
      await story.tell();
      const open = await rig.engine.listJobs({ state: "open" });
      assert.deepEqual(open, []);
      const applied = (await rig.notes()).filter(({ what }) =>
        what === "applied" || what === "revoked"
      );
      assert.equal(applied.length, story.accepted, "what was answered is what is there");
    });
  }
});
