/** @module The worker inside `serve`: the same as any other, over the home's Unix socket, without a supervisor. */

import type { Cas } from "../../cas/mod.ts";
import { type Log, SubletError } from "../../home/mod.ts";
import { openHttpClient } from "../../net/mod.ts";
import type { LeaseWorker } from "../worker.ts";
import type { WorkerEnd } from "../worker_options.ts";
import { hostSampler } from "./host_sample.ts";
import { takeWorker } from "./incarnation.ts";
import { systemProcesses } from "./processes.ts";
import { SystemSessionFiles } from "./session_files.ts";

/** What {@linkcode inProcessWorker} needs. */
export interface InProcessOptions {
  /** Path of the server's Unix socket. */
  readonly socket: string;
  /** A credential that the socket takes. */
  readonly token: string;
  readonly pool: string;
  readonly home: string;
  /** The server's own store. */
  readonly cas: Cas;
  readonly version: string;
  /** The argv that runs this program, for the commands of agents. */
  readonly self: readonly string[];
  readonly log: Log;
  readonly minFreeBytes?: number;
}

/** A worker that runs in this process. Disposing of it stops it, and waits for its jobs to report. */
export interface InProcessWorker extends AsyncDisposable {
  /** How it ended. Never rejects: what kept it from starting is a refusal. */
  readonly ended: Promise<WorkerEnd>;
  /** Take no more jobs, let those that run finish for `seconds`, then stop them; resolves when all is reported. */
  drain(seconds: number): Promise<void>;
  /** End, and leave agents running to the worker of the next server on this home; resolves once it has ended. */
  leave(): Promise<void>;
}

/** Start a worker in this process. */
export function inProcessWorker(options: InProcessOptions): InProcessWorker {
  const stopping = new AbortController();
  const drains: number[] = [];
  let leaving = false;
  let worker: LeaseWorker | null = null;
  const ended = run(options, stopping.signal, (made) => {
    worker = made;
    for (const seconds of drains) made.drain(seconds);
    if (leaving) made.leave();
  });
  return {
    ended,
    async drain(seconds) {
      if (worker === null) drains.push(seconds);
      else worker.drain(seconds);
      await ended;
    },
    async leave() {
      leaving = true;
      worker?.leave();
      await ended;
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await ended;
    },
  };
}

async function run(
  options: InProcessOptions,
  stop: AbortSignal,
  made: (worker: LeaseWorker) => void,
): Promise<WorkerEnd> {
  const { log, pool } = options;
  try {
    const { composeWorker } = await import("./compose.ts");
    const home = await Deno.realPath(options.home);
    using _lock = takeWorker(home, "serve");
    using http = openHttpClient({ server: `unix:${options.socket}`, token: options.token });
    const worker = await composeWorker({
      http,
      cas: options.cas,
      processes: systemProcesses({ log }),
      sessions: new SystemSessionFiles(),
      sampleHost: await hostSampler(home),
      home,
      self: options.self,
      key: "serve",
      log,
      pool,
      version: options.version,
      minFreeBytes: options.minFreeBytes ?? 0,
    });
    made(worker);
    return await worker.run(stop);
  } catch (cause) {
    const error = cause instanceof SubletError
      ? cause
      : new SubletError("internal", `the worker in pool ${pool} does not start`, { cause });
    log.event("worker.not_started", { pool, error });
    return { how: "refused", error };
  }
}
