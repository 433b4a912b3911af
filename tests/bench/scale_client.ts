/**
 * @module Many workers in one light process, for the scale benchmark: each with a long-poll and a connection for its
 * calls, as a real worker has them, and no job behind its leases. The first line of stdin says which.
 */

import { MAX_POLL_SECONDS, PROTOCOL } from "../../lib/lease/mod.ts";
import { answerLines } from "./lines.ts";
import { RawConnection } from "./raw_http.ts";

/** Which workers, and what they do with a lease. */
export interface ScaleWorkers {
  readonly ask: "start";
  readonly port: number;
  readonly tokens: readonly string[];
  readonly probe: string;
  /** Report at once, or hold what is taken. */
  readonly leases: "report" | "hold";
}

/** What they saw. */
export interface ScaleCounts {
  readonly grants: number;
  /** Times that a long-poll said that work waits. */
  readonly wakes: number;
  /** Times that it did, and there was none. */
  readonly emptyWakes: number;
  /** Of one worker, the most. */
  readonly mostEmptyWakes: number;
  /** Heartbeats that were answered. */
  readonly beats: number;
}

const BUFFER = 4096;
const RENEW_MS = 10_000;
const DIALED_AT_ONCE = 200;

class Worker {
  readonly #held: number[] = [];
  grants = 0;
  wakes = 0;
  emptyWakes = 0;
  beats = 0;
  #calls: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly connection: RawConnection,
    private readonly polls: RawConnection,
    private readonly leases: ScaleWorkers["leases"],
    private after: number,
  ) {}

  static async start(port: number, token: string, work: ScaleWorkers): Promise<Worker> {
    const headers = { authorization: `Bearer ${token}`, "sublet-incarnation": "bench" };
    const dial = () => RawConnection.open("127.0.0.1", port, headers, BUFFER);
    const connection = await dial();
    const { cursor } = JSON.parse(
      await call(connection, "register", {
        protocol: PROTOCOL,
        version: "bench",
        pool: "lab",
        runners: ["process"],
        sample: sample(),
        cas_probe: work.probe,
      }),
    );
    return new Worker(connection, await dial(), work.leases, cursor);
  }

  /** Ask for messages without end. */
  async poll(): Promise<void> {
    while (true) {
      const answer = await call(this.polls, "messages", {
        after: this.after,
        wait: MAX_POLL_SECONDS,
      });
      const messages: { kind: string; id: number }[] = answer === "" ? [] : JSON.parse(answer);
      for (const { kind, id } of messages) {
        this.after = Math.max(this.after, id);
        if (kind === "work") await this.#work();
      }
    }
  }

  /** Take until there is nothing more. */
  async #work(): Promise<void> {
    this.wakes++;
    const before = this.grants;
    while (true) {
      const body = { request_id: crypto.randomUUID(), sample: sample() };
      const grant = JSON.parse(await this.#call("acquire", body));
      if (typeof grant === "string") break;
      this.grants++;
      const { lease } = grant;
      const handle = { pgid: 1, start_time: 1 };
      await this.#call("started", { lease, handle, session_id: null });
      if (this.leases === "hold") this.#held.push(lease);
      else {
        const report = { kind: "idle" };
        await this.#call("report", { lease, request_id: crypto.randomUUID(), report });
      }
    }
    if (this.grants === before) this.emptyWakes++;
  }

  async beat(): Promise<void> {
    const leases = Object.fromEntries(this.#held.map((lease) => [lease, null]));
    await this.#call("heartbeat", { leases, sample: sample() });
    this.beats++;
  }

  /** A call on the one connection for calls, after those before it. */
  #call(name: string, body: unknown): Promise<string> {
    const done = this.#calls.then(() => call(this.connection, name, body));
    this.#calls = done;
    return done;
  }
}

function sample(): object {
  const at = "2026-01-01T00:00:00.000Z";
  return { at, cpus: 2, load1: 0.5, memory_available: 8e9, disk_free: 1e11 };
}

async function call(connection: RawConnection, name: string, body: unknown): Promise<string> {
  const answer = await connection.post(`/v1/executor/${name}`, JSON.stringify(body));
  if (answer.status >= 300) throw new Error(`${name}: ${answer.status} ${answer.body}`);
  return answer.body;
}

const workers: Worker[] = [];

async function start(work: ScaleWorkers): Promise<void> {
  for (let from = 0; from < work.tokens.length; from += DIALED_AT_ONCE) {
    const some = work.tokens.slice(from, from + DIALED_AT_ONCE);
    workers.push(...await Promise.all(some.map((token) => Worker.start(work.port, token, work))));
  }
  for (const worker of workers) void worker.poll();
  let turn = 0;
  let due = 0;
  setInterval(() => {
    due += workers.length * 20 / RENEW_MS;
    for (; due >= 1; due--) void workers[turn++ % workers.length]?.beat();
  }, 20);
}

function counts(): ScaleCounts {
  const sum = (of: (worker: Worker) => number) => workers.reduce((all, one) => all + of(one), 0);
  return {
    grants: sum(({ grants }) => grants),
    wakes: sum(({ wakes }) => wakes),
    emptyWakes: sum(({ emptyWakes }) => emptyWakes),
    beats: sum(({ beats }) => beats),
    mostEmptyWakes: workers.reduce((most, { emptyWakes }) => Math.max(most, emptyWakes), 0),
  };
}

await answerLines(async (question) => {
  const asked = question as ScaleWorkers | { readonly ask: "counts" };
  if (asked.ask === "start") await start(asked);
  return counts();
});
