/** @module Figures of the lease engine: heartbeats and full cycles (acquire, started, report) a second. */

import type { WorkerCaller } from "../../lib/lease/mod.ts";
import { openSqlite } from "../../lib/store/mod.ts";
import { TempDir } from "../kit/mod.ts";
import type { Figure } from "./figure.ts";
import { SAMPLE, type ServerReady, startEngine } from "./lease_app.ts";
import { fillQueue, IdleKind } from "./lease_queue.ts";
import { RawConnection } from "./raw_http.ts";

const SMALL = 1_000;
const LARGE = 1_000_000;
const CONNECTIONS = 32;
/** Heartbeats for so long. */
const SECONDS = 4;
/** Cycles by so many, beyond the jobs that stay queued. */
const CYCLES = 12_000;
const LONE_CYCLES = 1_000;

/** The figures. */
export async function run(): Promise<Figure[]> {
  await using dir = await TempDir.make("sublet-bench-");
  const figures: Figure[] = [];
  for (const queued of [SMALL, LARGE]) {
    const path = dir.join(`${queued}.sqlite`);
    await prepare(path, queued);
    const shown = queued.toLocaleString("en-GB");
    const inProcess = await cyclesInProcess(path);
    figures.push({
      name: "cycles in process",
      value: inProcess,
      unit: "/s",
      conditions: `${shown} queued, 32 at once, durable`,
    });
    await using server = await Server.start(path);
    if (queued === SMALL) {
      figures.push({
        name: "heartbeats",
        value: await server.heartbeats(),
        unit: "/s",
        conditions: `${CONNECTIONS} connections, each with one live lease, tokens checked`,
        target: ">= 8,000",
      });
      figures.push({
        name: "cycles over HTTP",
        value: await server.cycles(1, LONE_CYCLES),
        unit: "/s",
        conditions: `${shown} queued, 1 connection, durable`,
        target: ">= 500",
      });
    }
    figures.push({
      name: "cycles over HTTP",
      value: await server.cycles(CONNECTIONS, CYCLES),
      unit: "/s",
      conditions: `${shown} queued, ${CONNECTIONS} connections, durable, tokens checked`,
      target: ">= 4,000",
    });
  }
  return figures;
}

/** A database in which `queued` jobs wait when everything that is measured has been taken. */
async function prepare(path: string, queued: number): Promise<void> {
  await using db = await openSqlite(path);
  await fillQueue(db, queued + 2 * CYCLES + LONE_CYCLES + CONNECTIONS);
}

async function cyclesInProcess(path: string): Promise<number> {
  await using db = await openSqlite(path);
  const engine = await startEngine(db, new IdleKind());
  const callers = Array.from({ length: CONNECTIONS }, (_, n): WorkerCaller => ({
    name: `p${n}`,
    pool: "lab",
    incarnation: null,
    succeeds: null,
    local: false,
  }));
  const rate = await rateOf(callers, CYCLES, async (caller) => {
    const grant = await engine.acquire(caller, crypto.randomUUID(), SAMPLE);
    if (typeof grant === "string") throw new Error(`no lease: ${grant}`);
    await engine.started(caller, grant.lease, { pgid: 1, start_time: 1 }, null);
    await engine.report(caller, grant.lease, crypto.randomUUID(), { kind: "idle" });
  });
  await engine.close();
  return rate;
}

/** How often a second `turn` is done by all of `actors` together, for so many turns, or seconds if none is said. */
async function rateOf<T>(
  actors: readonly T[],
  turns: number | null,
  turn: (actor: T) => Promise<void>,
): Promise<number> {
  let begun = 0;
  const from = performance.now();
  const until = turns === null ? from + SECONDS * 1000 : Infinity;
  await Promise.all(actors.map(async (actor) => {
    while (performance.now() < until && begun < (turns ?? Infinity)) {
      begun++;
      await turn(actor);
    }
  }));
  return begun / ((performance.now() - from) / 1000);
}

class Server implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #ready: ServerReady;

  private constructor(child: Deno.ChildProcess, ready: ServerReady) {
    this.#child = child;
    this.#ready = ready;
  }

  static async start(path: string): Promise<Server> {
    const script = new URL("lease_server.ts", import.meta.url).pathname;
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-lock", script, path, String(CONNECTIONS)],
      stdout: "piped",
      stderr: "inherit",
      stdin: "null",
    }).spawn();
    let text = "";
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (text.includes("\n")) break;
    }
    return new Server(child, JSON.parse(text));
  }

  async #connect(count: number): Promise<RawConnection[]> {
    const connections: RawConnection[] = [];
    for (const token of this.#ready.tokens.slice(0, count)) {
      const connection = await RawConnection.open("127.0.0.1", this.#ready.port, {
        authorization: `Bearer ${token}`,
        "sublet-incarnation": "bench",
      });
      await call(connection, "register", {
        protocol: 7,
        version: "bench",
        pool: "lab",
        runners: ["process"],
        sample: SAMPLE,
        cas_probe: this.#ready.probe,
      });
      connections.push(connection);
    }
    return connections;
  }

  async heartbeats(): Promise<number> {
    const connections = await this.#connect(CONNECTIONS);
    const actors = await Promise.all(connections.map(async (connection) => {
      const { lease } = JSON.parse(await acquire(connection));
      return { connection, body: JSON.stringify({ leases: { [lease]: null }, sample: SAMPLE }) };
    }));
    const rate = await rateOf(actors, null, async ({ connection, body }) => {
      const { status } = await connection.post("/v1/executor/heartbeat", body);
      if (status !== 200) throw new Error(`heartbeat: ${status}`);
    });
    for (const connection of connections) connection[Symbol.dispose]();
    return rate;
  }

  async cycles(connectionCount: number, turns: number): Promise<number> {
    const connections = await this.#connect(connectionCount);
    const rate = await rateOf(connections, turns, async (connection) => {
      const { lease } = JSON.parse(await acquire(connection));
      const handle = { pgid: 1, start_time: 1 };
      await call(connection, "started", { lease, handle, session_id: null });
      await call(connection, "report", {
        lease,
        request_id: crypto.randomUUID(),
        report: { kind: "idle" },
      });
    });
    for (const connection of connections) connection[Symbol.dispose]();
    return rate;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
  }
}

function acquire(connection: RawConnection): Promise<string> {
  return call(connection, "acquire", { request_id: crypto.randomUUID(), sample: SAMPLE });
}

async function call(connection: RawConnection, name: string, body: unknown): Promise<string> {
  const answer = await connection.post(`/v1/executor/${name}`, JSON.stringify(body));
  if (answer.status >= 300 || answer.body === '"nothing"') {
    throw new Error(`${name}: ${answer.status} ${answer.body}`);
  }
  return answer.body;
}

if (import.meta.main) console.table(await run());
