/**
 * @module Session files of harnesses on this machine, in the home of whoever runs the worker. Only files that a pattern
 * named are read, and only one that is not there yet, or only begun, is written: by a shell, since a supervisor may write
 * nowhere.
 */

import { dirname, join } from "node:path";
import { type Env, safeRelative, SubletError } from "../../home/mod.ts";
import type { SessionFile, SessionFiles, SessionPattern } from "../../job/mod.ts";
import { execHelper } from "./helper_exec.ts";
import { baseEnv } from "./job_env.ts";

/** The most entries of directories that one search looks at. */
const MAX_LOOKED = 100_000;
/** Files that were found and may be read. */
const REMEMBERED = 1_000;
const MAX_READ = 4 * 1024 * 1024;
/** One that is there stays, unless it is the beginning of what is to be put there: another machine went on with it. */
const RESTORE = `if [ -e "$2" ]; then
  size=$(wc -c <"$2")
  [ "$size" -lt "$(wc -c <"$1")" ] || exit 0
  head -c "$size" "$1" | cmp -s - "$2" || exit 0
fi
mkdir -p "$(dirname "$2")" && cp "$1" "$2.sublet-part" && mv "$2.sublet-part" "$2"`;

/** A pattern, with the placeholders of its fixed start filled in. */
interface Glob {
  /** Absolute. */
  readonly start: string;
  /** One for each part of the path below that. */
  readonly parts: readonly string[];
}

/** {@linkcode SessionFiles} of this machine, whose environment is `env`. */
export class SystemSessionFiles implements SessionFiles {
  readonly #env: Readonly<Record<string, string>>;
  readonly #found = new Set<string>();

  constructor(env: Env = Deno.env.toObject()) {
    this.#env = baseEnv(env);
  }

  async find(pattern: SessionPattern): Promise<SessionFile | null> {
    const glob = this.#glob(pattern);
    for (const folder of pattern.folder === null ? [null] : [pattern.folder, null]) {
      const file = await newest(glob, pattern.sessionId, folder);
      if (file === null) continue;
      this.#found.delete(file.path);
      this.#found.add(file.path);
      for (const oldest of this.#found) {
        if (this.#found.size <= REMEMBERED) break;
        this.#found.delete(oldest);
      }
      return file;
    }
    return null;
  }

  async read(path: string, from: number, max: number) {
    if (!this.#found.has(path)) {
      throw new SubletError("permission_denied", `${path} is no session file that was asked for`);
    }
    try {
      // A link that took its place is not followed.
      if (!(await Deno.lstat(path)).isFile) return null;
      using file = await Deno.open(path);
      const { size, ino } = await file.stat();
      await file.seek(from, Deno.SeekMode.Start);
      const buffer = new Uint8Array(Math.max(0, Math.min(max, MAX_READ, size - from)));
      let length = 0;
      while (length < buffer.length) {
        const count = await file.read(buffer.subarray(length));
        if (count === null || count === 0) break;
        length += count;
      }
      return { bytes: buffer.subarray(0, length), size, inode: ino ?? 0 };
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      throw error;
    }
  }

  async restore(pattern: SessionPattern, name: string, source: string): Promise<void> {
    const target = join(this.#glob(pattern).start, safeRelative(name, "name of the session"));
    const argv = ["/bin/sh", "-c", RESTORE, "sh", source, target];
    const { code, stderr } = await execHelper({ argv, cwd: dirname(source) }, this.#env);
    if (code === 0) return;
    throw new SubletError("failed", `the session cannot be put at ${target}: ${stderr.trim()}`);
  }

  #glob({ file, env }: SessionPattern): Glob {
    const home = env["HOME"] ?? this.#env["HOME"] ?? "";
    const filled = file
      .replace(/\{env:([A-Za-z_][A-Za-z0-9_]*):([^{}]*)\}/g, (_, name: string, given: string) => {
        const set = env[name] ?? this.#env[name] ?? "";
        return set !== "" ? set : given.replace(/^~(?=\/|$)/, () => home);
      })
      .replaceAll("{home}", () => home)
      .replace(/^~(?=\/)/, () => home);
    const parts = filled.split("/");
    const wild = parts.findIndex((part) => /[*?[{]/.test(part));
    const end = wild < 0 ? parts.length - 1 : wild;
    const start = parts.slice(0, end).join("/");
    if (!filled.startsWith("/") || start === "" || parts.includes("..")) {
      throw new SubletError(
        "failed",
        `the session file ${JSON.stringify(file)} is no path that this machine can look at`,
      );
    }
    return { start, parts: parts.slice(end) };
  }
}

/** The newest file that fits `glob`, with `folder` (null: any) for `{cwd}`. */
async function newest(
  { start, parts }: Glob,
  sessionId: string,
  folder: string | null,
): Promise<SessionFile | null> {
  const tests = parts.map((part) => regexOf(part, sessionId, folder));
  let names = [""];
  let looked = 0;
  for (const [depth, test] of tests.entries()) {
    const last = depth === tests.length - 1;
    const next: string[] = [];
    for (const name of names) {
      for (const entry of entriesOf(join(start, name))) {
        if (++looked > MAX_LOOKED) break;
        const fits = (last ? entry.isFile : entry.isDirectory) && test.test(entry.name);
        if (fits) next.push(name === "" ? entry.name : `${name}/${entry.name}`);
      }
    }
    names = next;
  }
  let best: SessionFile & { readonly time: number } | null = null;
  for (const name of names) {
    const path = join(start, name);
    const info = await Deno.lstat(path).catch(() => null);
    const time = info?.mtime?.getTime() ?? 0;
    if (info === null || !info.isFile || (best !== null && best.time >= time)) continue;
    best = { path, name, size: info.size, inode: info.ino ?? 0, time };
  }
  if (best === null) return null;
  const { path, name, size, inode } = best;
  return { path, name, size, inode };
}

function entriesOf(path: string): Iterable<Deno.DirEntry> {
  try {
    return [...Deno.readDirSync(path)];
  } catch (error) {
    const none = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.NotADirectory || error instanceof Deno.errors.PermissionDenied;
    if (none) return [];
    throw error;
  }
}

function regexOf(part: string, sessionId: string, folder: string | null): RegExp {
  const escape = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const source = part.split(/(\{cwd\}|\{session_id\}|\*|\?)/).map((piece) =>
    piece === "{session_id}"
      ? escape(sessionId)
      : piece === "{cwd}"
      ? folder === null ? ".*" : escape(folder)
      : piece === "*"
      ? ".*"
      : piece === "?"
      ? "."
      : escape(piece)
  ).join("");
  return new RegExp(`^${source}$`, "s");
}
