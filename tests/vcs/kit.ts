/** @module Real git repositories for the tests of lib/vcs. */

import { type Cas, openMemory } from "../../lib/cas/mod.ts";
import {
  type ExecResult,
  type ExecSpec,
  type Log,
  systemClock,
  systemIds,
} from "../../lib/home/mod.ts";
import { type Ask, GitVcs, type Repository } from "../../lib/vcs/mod.ts";
import { exec } from "../kit/exec.ts";
import { TempDir } from "../kit/mod.ts";

const IDENTITY = {
  GIT_AUTHOR_NAME: "Ada",
  GIT_AUTHOR_EMAIL: "ada@example.org",
  GIT_COMMITTER_NAME: "Ada",
  GIT_COMMITTER_EMAIL: "ada@example.org",
};

/** Run git as a person would, in `cwd`; its trimmed stdout. Throws with its stderr when it fails. */
export async function git(cwd: string, ...args: string[]): Promise<string> {
  return await gitWith(cwd, {}, ...args);
}

/** {@linkcode git} with more variables. */
export async function gitWith(
  cwd: string,
  env: Record<string, string>,
  ...args: string[]
): Promise<string> {
  const { code, stdout, stderr } = await exec({
    argv: ["git", "-c", "protocol.file.allow=always", ...args],
    cwd,
    env: { ...IDENTITY, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", ...env },
  });
  if (code !== 0) throw new Error(`git ${args.join(" ")}: ${stderr}`);
  return new TextDecoder().decode(stdout).trim();
}

let tick = 1_700_000_000;

/** A repository that a person works in: it commits, one second after the other. */
export class Work {
  constructor(readonly path: string) {}

  static async make(path: string, format = "sha1"): Promise<Work> {
    await Deno.mkdir(path, { recursive: true });
    await git(path, "init", "-q", "-b", "main", `--object-format=${format}`);
    return new Work(path);
  }

  git(...args: string[]): Promise<string> {
    return git(this.path, ...args);
  }

  /** Write `files`, commit everything, and return the commit. */
  async commit(files: Record<string, string | Uint8Array>, message = "Change"): Promise<string> {
    for (const [name, content] of Object.entries(files)) {
      const path = `${this.path}/${name}`;
      await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
      if (typeof content === "string") await Deno.writeTextFile(path, content);
      else await Deno.writeFile(path, content);
    }
    await this.git("add", "-A");
    return await this.seal(message);
  }

  /** Commit what is in the index. */
  async seal(message: string, ...args: string[]): Promise<string> {
    const date = `${tick++} +0000`;
    await gitWith(
      this.path,
      { GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date },
      "commit",
      "-q",
      "--allow-empty",
      "-m",
      message,
      ...args,
    );
    return await this.git("rev-parse", "HEAD");
  }
}

/** A git provider that counts its processes and its events. */
export class Bench implements AsyncDisposable {
  readonly calls: ExecSpec[] = [];
  readonly events: { event: string; fields: Record<string, unknown> }[] = [];
  readonly cas: Cas = openMemory();
  /** Asked before each call; may throw, to play a crash. */
  before: (spec: ExecSpec) => void | Promise<void> = () => {};
  vcs: GitVcs;

  private constructor(readonly dir: TempDir) {
    this.vcs = this.restarted();
  }

  static async make(): Promise<Bench> {
    return new Bench(await TempDir.make());
  }

  /** The provider of a new process: it remembers nothing. */
  restarted(): GitVcs {
    const log: Log = { event: (event, fields = {}) => void this.events.push({ event, fields }) };
    this.vcs = new GitVcs({
      processes: { exec: (spec) => this.#exec(spec) },
      clock: systemClock,
      ids: systemIds,
      log,
    });
    return this.vcs;
  }

  async #exec(spec: ExecSpec): Promise<ExecResult> {
    this.calls.push(spec);
    await this.before(spec);
    return await exec(spec);
  }

  /** The git commands that `body` ran, such as `read-tree`. */
  async commands(body: () => Promise<unknown>): Promise<string[]> {
    const from = this.calls.length;
    await body();
    return this.calls.slice(from).map(commandOf);
  }

  /** A repository of record with one commit, and its provider's view of it. */
  async record(name = "record", format = "sha1"): Promise<{ work: Work; record: Repository }> {
    const work = await Work.make(this.dir.join(name), format);
    await work.commit({ "a.txt": "one\n" }, "First");
    return { work, record: await this.vcs.open(work.path) };
  }

  replica(name = "clones/1"): Promise<Repository> {
    return this.vcs.replica(this.dir.join(name));
  }

  /** An `ask` that `record` answers, and what it was asked. */
  asks(record: Repository): Ask & { asked: { revisions: string[]; have: string[] }[] } {
    const asked: { revisions: string[]; have: string[] }[] = [];
    const ask: Ask = async (revisions, have) => {
      asked.push({ revisions: [...revisions], have: [...have] });
      const sent = await record.send(this.cas, revisions, have);
      return sent === null ? [] : [sent.blob];
    };
    return Object.assign(ask, { asked });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dir[Symbol.asyncDispose]();
  }
}

/** The command of a git call: the first argument that is no option. */
export function commandOf(spec: ExecSpec): string {
  const args = spec.argv.slice(1);
  for (let i = 0; i < args.length; i++) {
    if (args[i] === "-c") i++;
    else if (!args[i]?.startsWith("-")) return args[i] ?? "";
  }
  return "";
}

/** The names of everything beneath `path`, sorted, without `.git`. */
export async function filesIn(path: string, prefix = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(path)) {
    if (prefix === "" && entry.name === ".git") continue;
    if (entry.isDirectory) {
      found.push(...await filesIn(`${path}/${entry.name}`, `${prefix}${entry.name}/`));
    } else found.push(prefix + entry.name);
  }
  return found.sort();
}

/** The error that `promise` rejects with. */
export async function failure(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
  throw new Error("it did not fail");
}
