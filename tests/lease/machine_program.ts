/** @module A supervised worker as a process of its own, for tests. */

import { openDisk } from "../../lib/cas/mod.ts";
import type { SupervisedWorkerOptions } from "../../lib/lease/machine/supervisor.ts";
import { TempDir } from "../kit/mod.ts";
import { FakeExecutor } from "./worker_fake_server.ts";

const MAIN = new URL("./machine_supervised_main.ts", import.meta.url).pathname;
const CONFIG = new URL("../../deno.json", import.meta.url).pathname;

export type ProgramOptions = Partial<Omit<SupervisedWorkerOptions, "entry">> & {
  /** A module beside this one, in the place of the worker's. */
  readonly entry?: string;
  /** A compiled file of the program. Default: run from source. */
  readonly binary?: string;
  readonly env?: Record<string, string>;
};

/** The last line that the program prints. */
export interface Verdict {
  readonly end: { readonly code: number; readonly error?: string; readonly message?: string };
  /** What its main thread may still do, or the name of the error. */
  readonly main: Readonly<Record<string, string>>;
}

/** A home and a server, and workers that use both. */
export class Desk implements AsyncDisposable {
  readonly server = new FakeExecutor();
  readonly #programs: Program[] = [];

  private constructor(readonly dir: TempDir, readonly home: string) {}

  static async make(): Promise<Desk> {
    const dir = await TempDir.make();
    const home = dir.join("home");
    await Deno.mkdir(home);
    return new Desk(dir, home);
  }

  /** Start a worker. */
  start(options: ProgramOptions = {}): Program {
    const { binary, env = {}, ...rest } = options;
    const worker = {
      server: this.server.url,
      token: "slt_secret",
      pool: "lab",
      home: this.home,
      casTable: { provider: "disk" },
      version: "0.1.0",
      ...rest,
    };
    const argv = binary === undefined
      ? [Deno.execPath(), "run", "-A", "--no-check", "--config", CONFIG, MAIN]
      : [binary];
    const [program = "", ...args] = argv;
    const child = new Deno.Command(program, {
      args: [...args, JSON.stringify(worker)],
      env: { NO_COLOR: "1", ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const made = new Program(child);
    this.#programs.push(made);
    return made;
  }

  /** Put the description of a job into the worker's store, and answer one acquire with it. */
  async grant(lease: number, job: unknown): Promise<void> {
    const cas = await openDisk({ path: `${this.home}/store` });
    const cid = await cas.put(new TextEncoder().encode(JSON.stringify(job)));
    let granted = false;
    this.server.replies["acquire"] = () => {
      if (granted) return Response.json("nothing");
      granted = true;
      return Response.json({ lease, job_cid: cid, handle: null, started_at: null });
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const program of this.#programs) await program.kill();
    await this.server[Symbol.asyncDispose]();
    await this.dir[Symbol.asyncDispose]();
  }
}

/** One process. */
export class Program {
  #stdout = "";
  #stderr = "";
  readonly #read: Promise<unknown>;
  readonly #child: Deno.ChildProcess;

  constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#read = Promise.all([
      read(child.stdout, (text) => this.#stdout += text),
      read(child.stderr, (text) => this.#stderr += text),
    ]);
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  get pid(): number {
    return this.#child.pid;
  }

  signal(name: Deno.Signal): void {
    this.#child.kill(name);
  }

  /** Its exit code, and what it said last. */
  async ended(): Promise<{ code: number; verdict: Verdict }> {
    const { code } = await this.#child.status;
    await this.#read;
    const last = this.#stdout.trim().split("\n").at(-1) ?? "";
    if (!last.startsWith("{")) throw new Error(`it ended with ${code}: ${this.#stderr}`);
    return { code, verdict: JSON.parse(last) as Verdict };
  }

  async kill(): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await this.#child.status;
    await this.#read;
  }
}

async function read(
  stream: ReadableStream<Uint8Array>,
  take: (text: string) => void,
): Promise<void> {
  for await (const text of stream.pipeThrough(new TextDecoderStream())) take(text);
}

/** The directory of a `deno` and its `denort-TARGET`, or null: tests of compiled files need one. */
export function toolchain(): { deno: string; denort: string } | null {
  const dir = Deno.env.get("SUBLET_TEST_TOOLCHAIN") ?? "";
  if (dir === "") return null;
  return { deno: `${dir}/deno`, denort: `${dir}/denort-${Deno.build.target}` };
}

/** Compile the program, with the modules that it starts by URL, into `path`. */
export async function compileProgram(
  { deno, denort }: { deno: string; denort: string },
  entries: readonly string[],
  path: string,
): Promise<void> {
  const includes = entries.flatMap((entry) => [
    "--include",
    new URL(entry, import.meta.url).pathname,
  ]);
  const args = ["compile", "-A", "--no-prompt", "--no-check", "--quiet", "--config", CONFIG];
  const { success, stderr } = await new Deno.Command(deno, {
    args: [...args, "--no-lock", ...includes, "--output", path, MAIN],
    env: { DENORT_BIN: denort },
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
