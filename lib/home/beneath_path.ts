/** @module A relative path beneath a root, none of whose directories is a symbolic link. */

import { join } from "node:path";
import { SubletError } from "./errors.ts";
import { safeRelative } from "./safe_path.ts";

/** Which file it is: one inode of one device. */
export interface FileIdentity {
  readonly dev: number;
  readonly ino: number | null;
}

/**
 * A judged path beneath `root`, which is trusted and exists. Each look at it is a chain of `lstat`s from the root
 * down: synchronous, so that as little as possible can happen in between.
 */
export class BeneathPath {
  /** The root without links. */
  readonly root: string;
  readonly relative: string;
  /** The absolute path. */
  readonly path: string;
  readonly what: string;
  readonly #parents: readonly string[];

  constructor(root: string, relative: string, what: string) {
    this.what = what;
    this.relative = safeRelative(relative, what);
    this.root = Deno.realPathSync(root);
    const parts = relative.split("/");
    this.#parents = parts.slice(1).map((_, index) => join(this.root, ...parts.slice(0, index + 1)));
    this.path = join(this.root, relative);
  }

  /** Whether every directory above the last part is there. Throws `unsafe_path` for one that is no real directory. */
  parentsExist(): boolean {
    return this.#parents.every((path) => {
      const info = lstat(path);
      if (info === null) return false;
      if (!info.isDirectory) throw this.refuse(path, info);
      return true;
    });
  }

  /** Make the directories above the last part that are missing. Throws `unsafe_path` as `parentsExist` does. */
  makeParents(mode: number): void {
    for (const path of this.#parents) makeDirectory(this, path, mode);
    if (!this.parentsExist()) throw this.vanished();
  }

  /** What the last part is, or null when it or a directory above it is missing. */
  lstat(): Deno.FileInfo | null {
    return this.parentsExist() ? lstat(this.path) : null;
  }

  /** Throws `unsafe_path` unless this path still leads, without a link, to the file that was opened. */
  checkIsStill(opened: FileIdentity): void {
    const info = this.lstat();
    if (info === null || info.dev !== opened.dev || info.ino !== opened.ino) {
      throw new SubletError(
        "unsafe_path",
        `${this.what}: ${JSON.stringify(this.relative)} was swapped while it was opened`,
      );
    }
  }

  refuse(path: string, info: Deno.FileInfo): SubletError {
    const kind = info.isSymlink
      ? "a symbolic link"
      : info.isDirectory
      ? "a directory"
      : info.isFile
      ? "a file"
      : "a special file";
    const shown = path === this.root ? "." : path.slice(this.root.length + 1);
    return new SubletError(
      "unsafe_path",
      `${this.what}: ${JSON.stringify(shown)} is ${kind}, and is not followed`,
    );
  }

  vanished(): SubletError {
    return new SubletError(
      "not_found",
      `${this.what}: there is no file ${JSON.stringify(this.relative)} in ${this.root}`,
    );
  }
}

/** Make the directory at `path` of `of`, or accept that it is one. */
export function makeDirectory(of: BeneathPath, path: string, mode: number): void {
  try {
    Deno.mkdirSync(path, { mode });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
  const info = lstat(path);
  if (info === null) throw of.vanished();
  if (!info.isDirectory) throw of.refuse(path, info);
}

function lstat(path: string): Deno.FileInfo | null {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return null;
    }
    throw error;
  }
}
