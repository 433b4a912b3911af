/** @module The directories of one lease of an evaluation, beneath the worker's home. */

import { join } from "node:path";
import { isError, lstatBeneath, mkdirBeneath, openBeneath, removeBeneath } from "../home/mod.ts";
import type { EvaluationJob } from "./shapes.ts";

/** The name of a run's checkout in its directory. */
const WORKTREE = "worktree";
/** What is ours alone, and no log: units files and the job's tag. */
const PRIVATE = ".run";
const WHAT = "place of the job";

/**
 * `<home>/<place>/lease-<lease>`: a directory for each run with its logs and its checkout, and `.run`. The lease in its
 * name keeps a job that was queued again away from what a stale one left.
 */
export class RunPlace {
  readonly home: string;
  /** Beneath the home. */
  readonly relative: string;
  /** Absolute. */
  readonly root: string;

  constructor(home: string, job: Pick<EvaluationJob, "place">, lease: number) {
    this.home = home;
    this.relative = `${job.place}/lease-${lease}`;
    this.root = join(home, this.relative);
  }

  /** Whether it is there. */
  get exists(): boolean {
    return lstatBeneath(this.home, this.relative, { what: WHAT }) !== null;
  }

  /** Make it, which nothing of the job has touched yet, and keep `tag` for a later process of this worker to find. */
  make(tag: string): void {
    mkdirBeneath(this.home, `${this.relative}/${PRIVATE}`, { what: WHAT });
    // At once, and not through a temporary file: the directory is fresh, and a job waits.
    Deno.writeTextFileSync(join(this.root, PRIVATE, "tag"), tag, { createNew: true, mode: 0o600 });
  }

  /** The tag that `make` kept, or null. */
  async tag(): Promise<string | null> {
    try {
      const path = `${this.relative}/${PRIVATE}/tag`;
      await using file = await openBeneath(this.home, path, { what: WHAT });
      const tag = new TextDecoder().decode(await file.bytes(200));
      return /^[0-9a-f-]{8,64}$/.test(tag) ? tag : null;
    } catch (error) {
      if (isError(error, "not_found", "unsafe_path", "too_large")) return null;
      throw error;
    }
  }

  /** Make the directory of the run `name`; the absolute path of its checkout, which is not made. */
  makeRun(name: string): string {
    mkdirBeneath(this.home, `${this.relative}/${name}`, { what: WHAT });
    return join(this.root, name, WORKTREE);
  }

  /** The path of a units file, beneath {@linkcode RunPlace.root}. */
  units(id: string): string {
    return `${PRIVATE}/units-${id}.json`;
  }

  /** Whether `path` beneath the root is no log: a checkout, or ours alone. */
  isNoLog(path: string): boolean {
    return path === PRIVATE || /^[^/]+\/worktree$/.test(path);
  }

  /** Absolute paths of the checkouts that are there. */
  async worktrees(): Promise<string[]> {
    if (!this.exists) return [];
    const found: string[] = [];
    for await (const { name, isDirectory } of Deno.readDir(this.root)) {
      if (!isDirectory || name === PRIVATE) continue;
      const info = await Deno.lstat(join(this.root, name, WORKTREE)).catch(() => null);
      if (info !== null) found.push(join(this.root, name, WORKTREE));
    }
    return found;
  }

  /** Remove it with all that is in it. */
  async remove(): Promise<void> {
    await removeBeneath(this.home, this.relative, { what: WHAT });
  }
}
