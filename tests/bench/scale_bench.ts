/** @module How far one server goes: thousands of workers and leases, a million queued jobs, bursts. */

import { type Clock, systemClock } from "../../lib/home/mod.ts";
import type { LeaseEngine, WorkerCaller } from "../../lib/lease/mod.ts";
import { type Db, openSqlite } from "../../lib/store/mod.ts";
import { V8_FLAGS } from "../../scripts/v8_flags.ts";
import { TempDir, until } from "../kit/mod.ts";
import type { Figure } from "./figure.ts";
import { SAMPLE, type ServerReady, startEngine } from "./lease_app.ts";
import { fillQueue, IdleKind } from "./lease_queue.ts";
import { LineChild } from "./lines.ts";
import type { ScaleCounts } from "./scale_client.ts";
import type { Usage } from "./scale_server.ts";

const WORKERS = 5_000;
const LEASES = 10_000;
const IDLE_WORKERS = 100;
const TRICKLE = 300;
const BURST = 10_000;
const SWEPT = 100_000;
const EXPIRED = 10_000;
const WATCH_SECONDS = 15;
const SETTLE_MS = 5_000;

/** The figures. With names, only those of `fleet`, `latency`, `queue` and `sweep` that are named. */
export async function run(only: readonly string[] = []): Promise<Figure[]> {
  await using dir = await TempDir.make("sublet-scale-");
  const parts: Record<string, (dir: TempDir) => Promise<Figure[]>> = {
    fleet,
    latency,
    queue,
    sweep,
  };
  const figures: Figure[] = [];
  for (const [name, part] of Object.entries(parts)) {
    if (only.length === 0 || only.includes(name)) figures.push(...await part(dir));
  }
  return figures;
}

async function together(
  path: string,
  workers: number,
  leases: "report" | "hold",
): Promise<{ server: LineChild; client: LineChild } & AsyncDisposable> {
  const flags = [`--v8-flags=${V8_FLAGS}`];
  const server = new LineChild("./scale_server.ts", [path, String(workers)], flags);
  const client = new LineChild("./scale_client.ts", []);
  const dispose = async () => {
    await client[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  };
  try {
    const ready = await server.read<ServerReady>();
    await client.ask({ ask: "start", ...ready, leases });
    return { server, client, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** How much of a core and of memory the server takes, as it stands. */
async function watch(
  { server, client }: { server: LineChild; client: LineChild },
): Promise<{ core: number; usage: Usage; beats: number }> {
  await pause(SETTLE_MS);
  const { beats } = await client.ask<ScaleCounts>({ ask: "counts" });
  const before = await server.ask<Usage>({ ask: "usage" });
  const from = performance.now();
  await pause(WATCH_SECONDS * 1000);
  const usage = await server.ask<Usage>({ ask: "usage" });
  const seconds = (performance.now() - from) / 1000;
  const beaten = (await client.ask<ScaleCounts>({ ask: "counts" })).beats - beats;
  const core = (usage.cpuSeconds - before.cpuSeconds) / seconds * 100;
  return { core, usage, beats: beaten / seconds };
}

/** Thousands of workers, idle and then with leases. */
async function fleet(dir: TempDir): Promise<Figure[]> {
  await using both = await together(dir.join("fleet.sqlite"), WORKERS, "hold");
  const { server } = both;
  const figures: Figure[] = [];
  const add = async (what: string, targets: boolean) => {
    const { core, usage, beats } = await watch(both);
    const conditions = `${usage.reachable} connected workers, ${usage.live} live leases, ` +
      `${Math.round(beats)} heartbeats/s, over ${WATCH_SECONDS} s`;
    figures.push({
      name: `server's CPU, ${what}`,
      value: core,
      unit: "% of a core",
      conditions,
      ...(targets ? { target: "<= 40" } : {}),
    }, {
      name: `server's memory, ${what}`,
      value: usage.rss / 1e6,
      unit: "MB",
      conditions,
      ...(targets ? { target: "<= 400" } : {}),
    });
  };
  await add("idle fleet", true);
  const from = performance.now();
  await server.ask({ ask: "burst", jobs: LEASES });
  await until("every job is taken", async () => {
    return (await server.ask<Usage>({ ask: "usage" })).live >= LEASES;
  }, 120);
  const taken = (performance.now() - from) / 1000;
  figures.push({
    name: "jobs submitted and started",
    value: LEASES / taken,
    unit: "/s",
    conditions: `${LEASES} at once, on ${WORKERS} idle workers`,
  });
  await add("live leases", false);
  return figures;
}

function percentile(sorted: readonly number[], p: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? NaN;
}

/** From a submit to a start, and a burst of submits. */
async function latency(dir: TempDir): Promise<Figure[]> {
  await using both = await together(dir.join("latency.sqlite"), IDLE_WORKERS, "report");
  const { server, client } = both;
  await server.ask({ ask: "trickle", jobs: 50, gapMs: 5 });
  const took = await server.ask<number[]>({ ask: "trickle", jobs: TRICKLE, gapMs: 5 });
  took.sort((a, b) => a - b);
  const conditions = `${IDLE_WORKERS} idle workers over HTTP, durable, ${TRICKLE} jobs, one by one`;
  const figures: Figure[] = [
    {
      name: "submit to start, p50",
      value: percentile(took, 0.5),
      unit: "ms",
      conditions,
      target: "<= 8",
    },
    {
      name: "submit to start, p99",
      value: percentile(took, 0.99),
      unit: "ms",
      conditions,
      target: "<= 40",
    },
  ];
  const before = await client.ask<ScaleCounts>({ ask: "counts" });
  const from = performance.now();
  await server.ask({ ask: "burst", jobs: BURST });
  const counts = () => client.ask<ScaleCounts>({ ask: "counts" });
  await until("every job ran", async () => {
    return (await counts()).grants - before.grants >= BURST;
  }, 120);
  const seconds = (performance.now() - from) / 1000;
  await pause(1500);
  const after = await counts();
  const burst = `${BURST} submits at once, ${IDLE_WORKERS} idle workers`;
  figures.push({
    name: "wakes of a burst",
    value: after.wakes - before.wakes,
    unit: "",
    conditions: burst,
  }, {
    name: "wakes that got nothing",
    value: after.emptyWakes - before.emptyWakes,
    unit: "",
    conditions: burst,
  }, {
    name: "of one worker, the most",
    value: after.mostEmptyWakes,
    unit: "",
    conditions: `${burst}, and the ${TRICKLE + 50} jobs before`,
    target: "<= 1",
  }, {
    name: "jobs submitted, started and reported",
    value: BURST / seconds,
    unit: "/s",
    conditions: burst,
  });
  return figures;
}

function caller(n: number): WorkerCaller {
  return { name: `w${n}`, pool: "lab", incarnation: null, succeeds: null, local: false };
}

/** What an acquire costs with a short and with a long queue: in turn, so that both see the same machine. */
async function queue(dir: TempDir): Promise<Figure[]> {
  const taken = 2_000;
  await using dbs = new AsyncDisposableStack();
  const queues = [];
  for (const queued of [1_000, 1_000_000]) {
    const db = dbs.use(await openSqlite(dir.join(`queue-${queued}.sqlite`)));
    await fillQueue(db, queued + taken);
    const engine = await startEngine(db, new IdleKind());
    queues.push({ queued, engine, took: [] as number[] });
  }
  for (let n = 0; n < taken; n++) {
    for (const { engine, took } of queues) {
      const from = performance.now();
      const grant = await engine.acquire(caller(n % 8), crypto.randomUUID(), SAMPLE);
      took.push(performance.now() - from);
      if (typeof grant === "string") throw new Error(`no lease: ${grant}`);
    }
  }
  const costs: number[] = [];
  const figures: Figure[] = [];
  for (const { queued, engine, took } of queues) {
    await engine.close();
    took.sort((a, b) => a - b);
    costs.push(percentile(took, 0.5));
    figures.push({
      name: "acquire, p50",
      value: percentile(took, 0.5),
      unit: "ms",
      conditions: `in process, durable, one by one, ${queued.toLocaleString("en-GB")} queued`,
    });
  }
  figures.push({
    name: "acquire with a million queued, against a thousand",
    value: (costs[1] ?? NaN) / (costs[0] ?? NaN),
    unit: "times",
    conditions: "in process, in turn",
    target: "<= 1.5",
  });
  return figures;
}

/** A clock that can be put forward. */
class LateClock implements Clock {
  #ahead = 0;

  forward(ms: number): void {
    this.#ahead += ms;
  }

  now(): number {
    return systemClock.now() + this.#ahead;
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#ahead;
  }

  after(ms: number, done: () => void): () => void {
    return systemClock.after(ms, done);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemClock.sleep(ms, signal);
  }
}

/** A look at very many live leases, and the end of many at once. */
async function sweep(dir: TempDir): Promise<Figure[]> {
  await using db = await openSqlite(dir.join("sweep.sqlite"));
  await fillLive(db, SWEPT);
  const clock = new LateClock();
  const engine = await startEngine(db, new IdleKind(), { clock });
  const looks: number[] = [];
  for (let n = 0; n < 9; n++) {
    const from = performance.now();
    await engine.sweep();
    looks.push(performance.now() - from);
  }
  looks.sort((a, b) => a - b);
  const figures: Figure[] = [{
    name: "expiry sweep",
    value: percentile(looks, 0.5),
    unit: "ms",
    conditions: `${SWEPT.toLocaleString("en-GB")} live leases of 1,000 workers, none due`,
    target: "<= 50",
  }];
  clock.forward(250_000);
  await renewAllBut(engine, db, EXPIRED);
  clock.forward(60_000);
  // Somebody is heard: it is not the network that fell silent.
  await engine.heartbeat(caller(0), new Map(), SAMPLE);
  let longest = 0;
  let over = false;
  const probing = (async () => {
    while (!over) {
      const from = performance.now();
      await db.write(() => Promise.resolve());
      longest = Math.max(longest, performance.now() - from);
      await pause(1);
    }
  })();
  const from = performance.now();
  await engine.sweep();
  const seconds = (performance.now() - from) / 1000;
  over = true;
  await probing;
  const left = (await engine.status()).jobs.running;
  if (left !== SWEPT - EXPIRED) throw new Error(`${left} leases are live`);
  await engine.close();
  const conditions = `${EXPIRED.toLocaleString("en-GB")} of ${SWEPT.toLocaleString("en-GB")} ` +
    "leases expire at once, durable";
  figures.push({ name: "leases expired", value: EXPIRED / seconds, unit: "/s", conditions }, {
    name: "longest wait of another write meanwhile",
    value: longest,
    unit: "ms",
    conditions,
  });
  return figures;
}

/** Live leases of a thousand workers, as a server leaves them that is stopped. */
async function fillLive(db: Db, count: number): Promise<void> {
  await fillQueue(db, count);
  await db.write(async (tx) => {
    const at = Date.now();
    await tx.run(
      `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
       INSERT INTO lease_workers (name, pool, version, runners, labels, cursor, sample, seen_at, joined_at)
       SELECT 'w' || i, 'lab', '1', '["process"]', '[]', 0, ?, ?, ? FROM n`,
      [JSON.stringify(SAMPLE), at, at],
    );
    await tx.run(
      `UPDATE leases SET state = 'running', ready = 0, worker = 'w' || (id % 1000), acquired_at = ?,
         started_at = ?, renewed_at = ?, acquire_request = 'r' || id`,
      [at, at, at],
    );
  });
}

/** Heartbeats that renew every lease but the `silent` ones with the lowest numbers. */
async function renewAllBut(engine: LeaseEngine, db: Db, silent: number): Promise<void> {
  const rows = await db.read((tx) =>
    tx.all<{ id: number; worker: string }>("SELECT id, worker FROM leases ORDER BY id")
  );
  const byWorker = new Map<string, Map<number, null>>();
  for (const { id, worker } of rows.slice(silent)) {
    const leases = byWorker.get(worker) ?? new Map<number, null>();
    byWorker.set(worker, leases.set(id, null));
  }
  for (const [name, leases] of byWorker) {
    await engine.heartbeat({ ...caller(0), name }, leases, SAMPLE);
  }
}

if (import.meta.main) console.table(await run(Deno.args));
