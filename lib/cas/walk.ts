/** @module What is beneath a directory, in the order of a manifest's paths. */

import { join } from "node:path";
import { SubletError, unsafeReason } from "../home/mod.ts";
import { compareBytes } from "./drisl.ts";
import { fileError } from "./files.ts";
import type { SeenFile } from "./seen.ts";
import { stampOf } from "./stamp.ts";

/** Files whose status is asked for at once. */
const WIDTH = 256;

/** Something that is no directory. */
export interface Found extends SeenFile {
  /** Its path in the manifest. */
  readonly relative: string;
  readonly info: Deno.FileInfo;
}

interface Name {
  readonly key: Uint8Array;
  readonly relative: string;
  readonly path: string;
  readonly directory: boolean;
}

/**
 * What is beneath `directory` and no directory itself, some at once; their paths start with `prefix`. Throws
 * `unsafe_path` for a name that no manifest may hold, `conflict` when something goes meanwhile.
 */
export async function* walk(directory: string, prefix: string): AsyncGenerator<Found[]> {
  let files: Name[] = [];
  for (const name of await namesIn(directory, prefix)) {
    if (!name.directory) files.push(name);
    if (files.length > 0 && (name.directory || files.length === WIDTH)) {
      yield await Promise.all(files.map(look));
      files = [];
    }
    if (name.directory) yield* walk(name.path, name.relative);
  }
  if (files.length > 0) yield await Promise.all(files.map(look));
}

async function namesIn(directory: string, prefix: string): Promise<Name[]> {
  const text = new TextEncoder();
  const names: Name[] = [];
  try {
    for await (const { name, isDirectory } of Deno.readDir(directory)) {
      const relative = prefix === "" ? name : `${prefix}/${name}`;
      const reason = unsafeReason(relative);
      if (reason !== null) {
        throw new SubletError(
          "unsafe_path",
          `${
            JSON.stringify(relative)
          } cannot be stored: ${reason}. Rename it, or move it out of the directory`,
        );
      }
      // What is in a directory sorts as its name with what follows.
      const key = text.encode(isDirectory ? `${name}/` : name);
      names.push({ key, relative, path: join(directory, name), directory: isDirectory });
    }
  } catch (error) {
    throw goneOr(error, directory);
  }
  return names.sort((a, b) => compareBytes(a.key, b.key));
}

async function look({ path, relative }: Name): Promise<Found> {
  try {
    const at = Date.now();
    const info = await Deno.lstat(path);
    return { path, relative, info, stamp: stampOf(info), at };
  } catch (error) {
    throw goneOr(error, path);
  }
}

/** The target of the symbolic link at `path`. Throws as {@linkcode walk}. */
export async function targetOf(path: string): Promise<string> {
  try {
    return await Deno.readLink(path);
  } catch (error) {
    throw goneOr(error, path);
  }
}

/** What was there just now may be gone, or be something else. */
function goneOr(error: unknown, path: string): SubletError {
  if (
    error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory
  ) {
    return new SubletError("conflict", `${path} went away while it was stored. Try again`, {
      cause: error,
    });
  }
  return fileError(error, `cannot read ${path}`, "unavailable");
}
