/**
 * @module Chaos: a real server, store and workers whose processes are stopped and killed and whose connections are cut,
 * while evaluations run. After each round everything that was asked for is measured, once, and no process is left.
 */

import assert from "node:assert/strict";
import { PROCESS_TAG } from "../../lib/lease/machine/mod.ts";
import { until } from "../kit/mod.ts";
import { Cluster, type EvaluationResult, TIMING } from "./cluster.ts";
import { type Fault, FAULTS } from "./chaos_faults.ts";
import { TcpProxy } from "./tcp_proxy.ts";

const WORKERS = ["ant", "bee", "cat"] as const;
const VALUES = [1, 2, 3, 4, 5, 6];
const EVALUATIONS = 4;
const MAX_FAULTS = 3;
/** How long a round may take to end once its faults are over: several tolerations, backoffs, and a busy machine. */
const SETTLE_SECONDS = 120;

/** Says when it starts and ends, and leaves a process behind in a session of its own, as careless scripts do. */
const SCRIPT = `echo "start $$ $(cat value)" >> "$1/runs"
setsid sleep 300 > /dev/null 2>&1 &
sleep 0.$(cat value)
echo "METRIC score=$(cat value)"
echo "end $$ $(cat value)" >> "$1/runs"
`;

/** What a round came to. */
export interface Round {
  readonly round: number;
  readonly faults: readonly string[];
  readonly evaluations: number;
  /** Leases that were lost. */
  readonly lost: number;
  /** Jobs that used up their attempts, and were tried again by hand. */
  readonly retried: number;
  readonly seconds: number;
}

/** Numbers from 0 to below 1 that a seed determines. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}

/** The processes, and what is done to them. */
export class Chaos implements AsyncDisposable {
  readonly #tokens = new Map<string, string>();
  readonly #proxies = new Map<string, TcpProxy>();
  #revisions: readonly string[] = [];
  #rounds = 0;
  #newestLease = 0;

  private constructor(readonly cluster: Cluster, readonly random: () => number) {}

  /** Start everything. The seed determines which faults there are and how long they last. */
  static async start(seed: number, binary: string | null = null): Promise<Chaos> {
    const cluster = await Cluster.make({ binary });
    const chaos = new Chaos(cluster, seeded(seed));
    try {
      await chaos.#start();
      return chaos;
    } catch (error) {
      await chaos[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const { cluster } = this;
    await cluster.serve();
    await cluster.serveCas();
    this.#revisions = await cluster.campaign(VALUES, SCRIPT);
    const store = new TcpProxy(Number(new URL(cluster.cas).port));
    this.#proxies.set("store", store);
    cluster.cas = store.url;
    for (const name of WORKERS) {
      this.#proxies.set(name, new TcpProxy(Number(new URL(cluster.server).port)));
      this.#tokens.set(name, await cluster.token(name));
      await cluster.configureWorker(name);
      await this.startWorker(name);
    }
  }

  get workers(): readonly string[] {
    return WORKERS;
  }

  /** The proxy of a worker's calls, or of the `store`'s. */
  proxy(name: string): TcpProxy {
    const proxy = this.#proxies.get(name);
    if (proxy === undefined) throw new Error(`there is no proxy ${name}`);
    return proxy;
  }

  async startWorker(name: string): Promise<void> {
    const token = this.#tokens.get(name) ?? "";
    await this.cluster.startWorker(name, token, { server: this.proxy(name).url });
  }

  /** A number from `from` to below `to`. */
  between(from: number, to: number): number {
    return from + (to - from) * this.random();
  }

  pick<T>(from: readonly T[]): T {
    const picked = from[Math.floor(this.random() * from.length)];
    if (picked === undefined) throw new Error("nothing to pick from");
    return picked;
  }

  /** Resolve as soon as another run has ended, or after some seconds. */
  async runEnds(seconds: number): Promise<void> {
    const count = async () =>
      (await this.cluster.runs()).filter((line) => line.startsWith("end")).length;
    const before = await count();
    await until("a run ends", async () => await count() > before, seconds).catch(() => {});
  }

  /** Queue evaluations, do harm meanwhile, undo it, and check what came of it. */
  async round(): Promise<Round> {
    const from = performance.now();
    const { cluster } = this;
    const revisions = Array.from({ length: EVALUATIONS }, () => this.pick(this.#revisions));
    const queued = await cluster.queue(...revisions);
    const faults = this.#choose();
    try {
      await this.#harm(faults);
      const results = await this.#settle(queued);
      const lost = await this.#check(queued, results.ended);
      return {
        round: ++this.#rounds,
        faults: faults.map(({ name }) => name),
        evaluations: queued.length,
        lost,
        retried: results.retried,
        seconds: (performance.now() - from) / 1000,
      };
    } catch (error) {
      const names = faults.map(({ name }) => name).join(", ");
      throw new Error(`round ${this.#rounds + 1} (${names}) failed`, { cause: error });
    }
  }

  /** Faults of different targets, so that none undoes another. */
  #choose(): Fault[] {
    const chosen = new Map<string, Fault>();
    const count = 1 + Math.floor(this.random() * MAX_FAULTS);
    for (let n = 0; n < count; n++) {
      const fault = this.pick(FAULTS)(this);
      if (!chosen.has(fault.target)) chosen.set(fault.target, fault);
    }
    return [...chosen.values()];
  }

  async #harm(faults: readonly Fault[]): Promise<void> {
    const delays = faults.map(() => this.between(0, 1));
    await Promise.all(faults.map(async (fault, index) => {
      await sleep(delays[index] ?? 0);
      await fault.harm();
      await sleep(fault.seconds);
    }));
    // The server first: a worker that starts waits for it.
    const order = [...faults].sort((a, b) =>
      a.undoneLast === b.undoneLast ? 0 : a.undoneLast ? 1 : -1
    );
    for (const fault of order) await fault.undo();
  }

  /** Wait until every evaluation ended. A job that used up its attempts is tried again by hand. */
  async #settle(queued: readonly EvaluationResult[]) {
    let retried = 0;
    const ended: EvaluationResult[] = [];
    for (const each of queued) {
      let result = await this.cluster.ended(each, SETTLE_SECONDS);
      while (result.state === "failed" && await this.#isDead(each.job)) {
        retried++;
        await this.cluster.api("POST", `/v1/jobs/${each.job}/retry`, {});
        result = await this.cluster.ended(each, SETTLE_SECONDS);
      }
      ended.push(result);
    }
    return { ended, retried };
  }

  async #isDead(job: number): Promise<boolean> {
    return (await this.cluster.job(job)).state === "dead";
  }

  /** The promises of a round; how many leases were lost. */
  async #check(queued: readonly EvaluationResult[], ended: readonly EvaluationResult[]) {
    let lost = 0;
    let newest = this.#newestLease;
    for (const [index, result] of ended.entries()) {
      const value = VALUES[this.#revisions.indexOf(queued[index]?.revision ?? "")];
      assert.equal(result.state, "measured", JSON.stringify(result));
      assert.deepEqual(result.metrics, { score: value }, "the metric of its own commit");
      const { state, leases } = await this.cluster.job(result.job);
      assert.equal(state, "reported");
      const ids = leases.map(({ lease }) => lease);
      assert.deepEqual(ids, [...new Set(ids)].sort((a, b) => a - b), "fences grow");
      assert.ok(ids.every((id) => id > this.#newestLease), "no fence of an earlier round is back");
      const accepted = leases.filter((lease) => lease.state === "reported");
      assert.deepEqual(
        accepted.map(({ lease }) => lease),
        ids.slice(-1),
        `one accepted report, under the newest lease: ${JSON.stringify(leases)}`,
      );
      assert.equal(result.lease, ids.at(-1));
      newest = Math.max(newest, ...ids);
      lost += leases.length - 1;
    }
    this.#newestLease = newest;
    await this.#nothingLeft();
    return lost;
  }

  /** No process of a job lives, no report waits in a spool, and every worker is there. */
  async #nothingLeft(): Promise<void> {
    await until("no process of a job is left", async () => (await this.orphans()).length === 0, 60)
      .catch(async (cause) => {
        throw new Error(`left: ${JSON.stringify(await this.orphans())}`, { cause });
      });
    for (const name of WORKERS) {
      assert.ok(isAlive(this.cluster.programs.pid(name)), `worker ${name} is gone`);
      const spool = `${this.cluster.root}/${name}/spool/${name}`;
      await until(`the spool of ${name} is empty`, async () => {
        const names = await Array.fromAsync(Deno.readDir(spool)).catch(() => []);
        return !names.some((entry) => entry.name.endsWith(".json"));
      }, 60);
    }
  }

  /** What still runs of this cluster's jobs: their processes carry a tag, and paths beneath the root. */
  async orphans(): Promise<string[]> {
    const found: string[] = [];
    for await (const { name } of Deno.readDir("/proc")) {
      if (!/^\d+$/.test(name)) continue;
      const environ = await Deno.readTextFile(`/proc/${name}/environ`).catch(() => "");
      if (!environ.includes(`${PROCESS_TAG}=`) || !environ.includes(this.cluster.root)) continue;
      if (!isAlive(Number(name))) continue;
      const command = await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "");
      found.push(`${name} ${command.replaceAll("\0", " ").trim()}`);
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const proxy of this.#proxies.values()) proxy.mend();
    await this.cluster[Symbol.asyncDispose]();
    for (const proxy of this.#proxies.values()) await proxy[Symbol.asyncDispose]();
  }
}

/** Longer than the toleration: what is silent for so long has lost its leases. */
export const BEYOND = TIMING.toleration + 1;

function sleep(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}

function isAlive(pid: number): boolean {
  try {
    const state = Deno.readTextFileSync(`/proc/${pid}/stat`).split(") ").at(-1)?.[0];
    return state !== "Z" && state !== "X";
  } catch {
    return false;
  }
}
