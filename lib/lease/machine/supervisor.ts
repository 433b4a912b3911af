/**
 * @module The supervisor of a worker: the process's main thread. It starts and stops processes for a Web Worker that may
 * do nothing else itself, gives up what it does not need for that, and hands on signals.
 */

import {
  homePaths,
  makeHome,
  messageOf,
  stderrLog,
  SubletError,
  systemClock,
} from "../../home/mod.ts";
import { trustedRoots } from "../../net/mod.ts";
import { doorSockets } from "./door_sockets.ts";
import { type Grants, grantsOf, reachOf } from "./grants.ts";
import { GuardedProcesses } from "./guarded_processes.ts";
import { hostSampler } from "./host_sample.ts";
import type { HostSample } from "../wire.ts";
import { lockKey, takeWorker } from "./incarnation.ts";
import { refusePrompts } from "./prompts.ts";
import { systemProcesses } from "./processes.ts";
import { spareMemory } from "./spare_memory.ts";
import {
  answerCall,
  type Boot,
  faultOf,
  type FromWorker,
  fromWorker,
  type Machine,
  type ToWorker,
} from "./rpc.ts";
import { GuardedSessions } from "./guarded_sessions.ts";
import { SystemSessionFiles } from "./session_files.ts";

/** What `sublet worker` is told. */
export interface SupervisedWorkerOptions {
  /** URL of the server. */
  readonly server: string;
  readonly token: string;
  readonly pool: string;
  readonly home: string;
  /** The home's table `[plugins.cas]`. */
  readonly casTable: Readonly<Record<string, unknown>>;
  readonly version: string;
  /** The argv that runs this program, for the commands of agents. */
  readonly self: readonly string[];
  readonly once?: boolean;
  readonly orphanExitSeconds?: number | null;
  readonly labels?: readonly string[];
  /** 2^30 bytes that cached inputs leave free on the home's disk. Default 0. */
  readonly minFreeGb?: number;
  /** Another module for the Web Worker, to see what it may do. Default: the worker. */
  readonly entry?: URL;
}

/** What the supervisor does without once its Web Worker runs. */
const GIVEN_UP = ["net", "ffi", "import", "write"] as const;
const SIGNALS: readonly (readonly [Deno.Signal, number])[] = Deno.build.os === "windows"
  ? [["SIGINT", 130], ["SIGBREAK", 143]]
  : [["SIGINT", 130], ["SIGTERM", 143]];
/** Leaves agents to the next process of the worker, and ends. */
const LEAVE: Deno.Signal | null = Deno.build.os === "windows" ? null : "SIGUSR1";
/** A Web Worker whose loop does not turn for so long renews no lease: its jobs must stop before others start them. */
const WEDGED_MS = 120_000;

/**
 * Be a worker until it ends: 0 when it drained, had its one lease, was orphaned or stopped; 1 when its Web Worker died.
 * Throws what the server refused it with, `conflict` when another process is this worker, and `config`.
 *
 * It gives up permissions of the whole process, so nothing but its end may follow.
 */
export async function runSupervisedWorker(options: SupervisedWorkerOptions): Promise<number> {
  await refusePrompts();
  await makeHome(options.home);
  const home = await Deno.realPath(homePaths(options.home).root);
  const key = lockKey(options.token);
  using _lock = takeWorker(home, key);
  const env = Deno.env.toObject();
  const reach = await reachOf(options.casTable, home, env);
  const boot: Boot = {
    server: options.server,
    token: options.token,
    pool: options.pool,
    home,
    self: options.self,
    key,
    casTable: options.casTable,
    casEnv: reach?.env ?? {},
    version: options.version,
    labels: options.labels ?? [],
    once: options.once ?? false,
    orphanExitSeconds: options.orphanExitSeconds ?? null,
    minFreeBytes: (options.minFreeGb ?? 0) * 2 ** 30,
    ca: trustedRoots(env) ?? null,
  };
  const processes = new GuardedProcesses(systemProcesses({ log: stderrLog }), home);
  const entry = options.entry ?? new URL("./worker_entry.ts", import.meta.url);
  const sample = await hostSampler(home);
  // Nothing may be awaited between the thread and its listener: what it says meanwhile would be lost.
  const thread = startThread(entry, boot, grantsOf(boot.server, home, boot.casTable, reach));
  const supervisor = new Supervisor(boot, processes, sample, thread);
  return await supervisor.run();
}

class Supervisor {
  readonly #worker: Worker;
  readonly #boot: Boot;
  readonly #processes: GuardedProcesses;
  readonly #machine: Machine;
  readonly #end = Promise.withResolvers<number>();
  #signals = 0;
  #beat = systemClock.monotonic();

  constructor(
    boot: Boot,
    processes: GuardedProcesses,
    sample: () => Promise<HostSample>,
    thread: Worker,
  ) {
    this.#boot = boot;
    this.#processes = processes;
    const sessions = new GuardedSessions(new SystemSessionFiles(), boot.home);
    this.#machine = { processes, sessions, sample };
    this.#worker = thread;
  }

  async run(): Promise<number> {
    const worker = this.#worker;
    worker.onmessage = ({ data }) => void this.#take(data);
    worker.onmessageerror = () => void this.#died("it sent what cannot be read");
    worker.onerror = (event) => {
      event.preventDefault();
      void this.#died(event.message);
    };
    const listeners = SIGNALS.map(([name, code]) =>
      [name, () => void this.#signalled(code)] as const
    );
    for (const [name, listener] of listeners) Deno.addSignalListener(name, listener);
    const leave = () => this.#post({ type: "leave" });
    if (LEAVE !== null) Deno.addSignalListener(LEAVE, leave);
    const watchdog = setInterval(() => {
      const silent = systemClock.monotonic() - this.#beat;
      if (silent > WEDGED_MS) void this.#died(`it hung for ${Math.round(silent / 1000)} s`);
    }, WEDGED_MS / 10);
    try {
      return await this.#end.promise;
    } finally {
      clearInterval(watchdog);
      for (const [name, listener] of listeners) Deno.removeSignalListener(name, listener);
      if (LEAVE !== null) Deno.removeSignalListener(LEAVE, leave);
      worker.terminate();
    }
  }

  async #take(data: unknown): Promise<void> {
    const parsed = fromWorker.safeParse(data);
    if (!parsed.success) return await this.#died("it sent something that is no message");
    this.#beat = systemClock.monotonic();
    const message = parsed.data;
    switch (message.type) {
      case "up":
        await this.#giveUp();
        return this.#post({ type: "boot", boot: this.#boot });
      case "beat":
        return;
      case "call":
        return await this.#answer(message);
      case "registered":
        this.#ready(message.worker, message.url);
        return await spareMemory();
      case "ended":
        return this.#end.resolve(0);
      case "failed":
        // It has stopped its jobs, unless it never came to that.
        await this.#processes.stopAll(true);
        return this.#end.reject(new SubletError(message.error.code, message.error.message));
    }
  }

  /** Drop what only the Web Worker needs, which holds its own share by now. */
  async #giveUp(): Promise<void> {
    for (const name of GIVEN_UP) await Deno.permissions.revoke({ name });
  }

  async #answer({ id, call, args }: FromWorker & { type: "call" }): Promise<void> {
    try {
      const value = await answerCall(this.#machine, call, args);
      this.#post({ type: "answer", id, value });
    } catch (error) {
      this.#post({ type: "refusal", id, error: faultOf(error) });
    }
  }

  /** Scripts wait for this line. */
  #ready(name: string, url: string): void {
    const line = `worker ${name} in pool ${this.#boot.pool}: connected to ${url}\n`;
    const bytes = new TextEncoder().encode(line);
    try {
      for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
    } catch (error) {
      // Nobody reads it. The worker works all the same.
      stderrLog.event("worker.line_unread", { error: messageOf(error) });
    }
  }

  /** The first signal drains, the second stops, the third kills. */
  async #signalled(code: number): Promise<void> {
    this.#signals++;
    if (this.#signals === 1) return this.#post({ type: "drain" });
    if (this.#signals === 2) return this.#post({ type: "stop" });
    await this.#processes.stopAll(true);
    this.#end.resolve(code);
  }

  /** The Web Worker is gone or useless: nobody renews the leases of its jobs until the next process does. */
  async #died(why: string): Promise<void> {
    stderrLog.event("worker.died", { error: why });
    this.#worker.terminate();
    await this.#processes.stopAll(false);
    this.#end.resolve(1);
  }

  #post(message: ToWorker): void {
    this.#worker.postMessage(message);
  }
}

/** The Web Worker, with its permissions. */
function startThread(
  entry: URL,
  { home, key }: Boot,
  { net, sockets, read, write }: Grants,
): Worker {
  const make = (net: string[]) =>
    new Worker(entry, {
      type: "module",
      name: "sublet worker",
      deno: {
        permissions: {
          net,
          read,
          write,
          env: false,
          run: false,
          ffi: false,
          sys: false,
          import: false,
        },
      },
    });
  try {
    return make([...net, ...[...sockets, ...doorSockets(home, key)].map((path) => `unix:${path}`)]);
  } catch (error) {
    // Deno 2.6 takes no path here, and wants none: to use a socket it asks for its file alone.
    if (!(error instanceof URIError)) throw error;
    return make(net);
  }
}
