/** @module Directories and symbolic links of a tree that is put in place. */

import { dirname } from "node:path";
import { mkdirBeneath, SubletError } from "../home/mod.ts";
import { fileError } from "./files.ts";

/** Directories that are remembered to be there. */
const REMEMBERED = 10_000;

/** Makes the directories of entries, which come in order, so that each is made once. */
export class Directories {
  readonly #root: string;
  readonly #what: string;
  readonly #made = new Set<string>(["."]);

  /** Beneath `root`. `what` they are of, for errors. */
  constructor(root: string, what: string) {
    this.#root = root;
    this.#what = what;
  }

  /** Make the directory of `path`. Throws `unsafe_path` where one on the way is a link, or the path is too long. */
  above(path: string): void {
    const directory = dirname(path);
    if (this.#made.has(directory)) return;
    this.make(directory);
    if (this.#made.size >= REMEMBERED) this.#made.clear();
    this.#made.add(directory);
  }

  make(directory: string): void {
    if (directory === "" || directory === ".") return;
    try {
      mkdirBeneath(this.#root, directory, { what: this.#what, mode: 0o755 });
    } catch (error) {
      throw placeError(error, `cannot make the directory ${JSON.stringify(directory)}`);
    }
  }
}

/** A failure to put `what` in place. */
export function placeError(error: unknown, what: string): SubletError {
  if (error instanceof Error && "code" in error && error.code === "ENAMETOOLONG") {
    return new SubletError(
      "unsafe_path",
      `${what}: with the directory that it is put in, its path is too long. Use a shorter one`,
      { cause: error },
    );
  }
  return fileError(error, what, "unavailable");
}
