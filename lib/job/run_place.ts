/** @module The directories of one lease of an evaluation, beneath the worker's home. */

import { join } from "node:path";
import { mkdirBeneath } from "../home/mod.ts";
import { LeasePlace, PRIVATE, WHAT, WORKTREE } from "./lease_place.ts";

/** A {@linkcode LeasePlace} with a directory for each run, which holds its logs and its checkout. */
export class RunPlace extends LeasePlace {
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
}
