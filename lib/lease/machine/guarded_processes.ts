/** @module What a supervisor does for its Web Worker, and what it refuses. */

import { basename, dirname, isAbsolute, resolve } from "node:path";
import {
  type ExecResult,
  type ExecSpec,
  type Exit,
  type Processes,
  type ProcessRef,
  type StartSpec,
  SubletError,
} from "../../home/mod.ts";
import { MAKE_LINKS } from "../../job/mod.ts";
import { foreignGitCall, gitPaths } from "../../vcs/mod.ts";
import { isOfJob } from "./process_table.ts";

/** How the one script begins that a worker runs: for links, which a limited process may not make. */
const LINKS = ["/bin/sh", "-c", MAKE_LINKS, "sh"];

/**
 * `Processes` for a caller that is not trusted: directories and files beneath the home alone, helpers from a list, and
 * signals for jobs alone.
 */
export class GuardedProcesses implements Processes {
  readonly #processes: Processes;
  readonly #home: string;
  readonly #running = new Map<
    number,
    { readonly ref: ProcessRef; readonly tag: string; readonly outlives: boolean }
  >();

  /** `home`: without links in its path. */
  constructor(processes: Processes, home: string) {
    this.#processes = processes;
    this.#home = home;
  }

  async start(spec: StartSpec): Promise<ProcessRef> {
    await this.#beneath(spec.cwd, "the directory of a job");
    await this.#newFile(spec.stdout, "the output of a job");
    await this.#newFile(spec.stderr, "the output of a job");
    this.#place(spec.place);
    if (spec.pathFirst !== undefined) await this.#beneath(spec.pathFirst, "the programs of a job");
    if (spec.outlives !== undefined) {
      await this.#newFile(spec.outlives.exit, "the exit code of a job");
    }
    const ref = await this.#processes.start(spec);
    this.#running.set(ref.pid, { ref, tag: spec.tag, outlives: spec.outlives !== undefined });
    return ref;
  }

  async wait(ref: ProcessRef): Promise<Exit> {
    return await this.#processes.wait(ref);
  }

  async alive(ref: ProcessRef): Promise<boolean> {
    return await this.#processes.alive(ref);
  }

  async stop(
    ref: ProcessRef,
    tag: string | null,
    graceMs: number,
    place?: string,
  ): Promise<void> {
    this.#place(place);
    const own = this.#running.get(ref.pid);
    const mine = own !== undefined && own.ref.startTime === ref.startTime;
    // Left by an earlier process of this worker: it must at least be some worker's job.
    if (!mine && await this.#processes.alive(ref) && !await isOfJob(ref.pid)) {
      throw new SubletError("permission_denied", `process ${ref.pid} is no job of a worker`);
    }
    await this.#processes.stop(ref, tag, graceMs, place);
    if (mine) this.#running.delete(ref.pid);
  }

  async exec(spec: ExecSpec): Promise<ExecResult> {
    await this.#helper(spec);
    await this.#beneath(spec.cwd, "the directory of a helper");
    if (spec.stdin !== undefined && !(spec.stdin instanceof Uint8Array)) {
      await this.#beneath(spec.stdin.path, "the input of a helper");
    }
    if (spec.stdoutPath !== undefined) {
      await this.#outputFile(spec.stdoutPath, "the output of a helper");
    }
    return await this.#processes.exec(spec);
  }

  /** A helper is a call of git as ours are, or makes links in the home. */
  async #helper({ argv, env }: ExecSpec): Promise<void> {
    let why = `${JSON.stringify(argv[0])} is no helper of a worker`;
    if (argv[0] === "git") {
      const foreign = foreignGitCall(argv, env ?? {});
      if (foreign === null) {
        for (const path of gitPaths(argv)) await this.#beneath(path, "the directory of git");
        return;
      }
      why = `this call of git is none of a worker's: ${foreign}`;
    } else if (LINKS.every((word, at) => argv[at] === word) && env === undefined) {
      const paths = argv.slice(LINKS.length).filter((_, at) => at % 2 === 1);
      for (const path of paths) await this.#beneath(dirname(path), "the directory of a link");
      return;
    }
    throw new SubletError("permission_denied", why);
  }

  /** Stop everything that was started and not stopped yet: with `all` also what a later worker could take over. */
  async stopAll(all: boolean): Promise<void> {
    const left = [...this.#running.values()].filter(({ outlives }) => all || !outlives);
    await Promise.allSettled(left.map(({ ref, tag }) => this.#processes.stop(ref, tag, 0)));
  }

  /**
   * `place` is a lease's directory in the home, which need not be there any more. By its text alone: what stands in a
   * directory is told by its real path, and a real path beneath the home is no link out of it.
   */
  #place(place: string | undefined): void {
    if (place === undefined) return;
    const named = place.startsWith(`${this.#home}/`) && resolve(place) === place;
    if (named && /\/lease-[1-9]\d{0,15}$/.test(place)) return;
    throw new SubletError(
      "unsafe_path",
      `the place of a job, ${
        JSON.stringify(place)
      }, is refused: it is no lease's directory in the worker's home`,
    );
  }

  /** `path` exists, and is in the home once every link in it is followed. */
  async #beneath(path: string, what: string): Promise<void> {
    const real = isAbsolute(path) ? await Deno.realPath(path).catch(() => null) : null;
    if (real !== null && (real === this.#home || real.startsWith(`${this.#home}/`))) return;
    throw new SubletError(
      "unsafe_path",
      `${what}, ${JSON.stringify(path)}, is refused: it is not beneath the worker's home`,
    );
  }

  /** `path` does not exist, and its directory is in the home. */
  async #newFile(path: string, what: string): Promise<void> {
    if (await this.#outputFile(path, what) !== null) {
      throw new SubletError("conflict", `${what}, ${path}, is there already`);
    }
  }

  /** `path` is absent or a plain file, and its directory is in the home: what is there. */
  async #outputFile(path: string, what: string): Promise<Deno.FileInfo | null> {
    await this.#beneath(dirname(path), what);
    const there = await Deno.lstat(path).catch(() => null);
    const name = basename(path);
    if (name !== "." && name !== ".." && !path.endsWith("/") && (there === null || there.isFile)) {
      return there;
    }
    throw new SubletError("unsafe_path", `${what}, ${path}, is refused: it is no plain file`);
  }
}
