/** @module Where things are: the home directory and what is in it. */

import { createHash } from "node:crypto";
import { join, resolve } from "node:path";
import { SubletError } from "./errors.ts";

/** Environment variables, by name. */
export type Env = Readonly<Record<string, string | undefined>>;

/** Absolute paths of a home. */
export interface HomePaths {
  readonly root: string;
  /** `config.toml`; it may be missing. */
  readonly config: string;
  readonly db: string;
  /** The Unix socket on which `serve` answers; outside the home when its path would be too long. */
  readonly socket: string;
  /** The process id of `serve`. */
  readonly pidFile: string;
  /** The default place of the `disk` CAS. */
  readonly store: string;
  /** Reports of a worker that were not accepted yet. */
  readonly spool: string;
  readonly tmp: string;
  /** The index of files that were stored before; it may be removed at any time. */
  readonly seen: string;
  readonly clones: string;
  /** Cached inputs of jobs. */
  readonly inputs: string;
  /** The log of `serve --detach`. */
  readonly log: string;
}

/** Bytes that a socket's path may have, without its NUL. */
const SUN_PATH = Deno.build.os === "linux" ? 107 : 103;

/** The home directory: `SUBLET_HOME`, else `~/.sublet`. Absolute. Throws `config` when neither can be known. */
export function homeDir(env: Env = Deno.env.toObject()): string {
  const given = env.SUBLET_HOME;
  if (given !== undefined && given !== "") return resolve(given);
  const user = env.HOME ?? env.USERPROFILE;
  if (user === undefined || user === "") {
    throw new SubletError("config", "neither SUBLET_HOME nor HOME is set: set SUBLET_HOME");
  }
  return join(resolve(user), ".sublet");
}

/** The paths of the home at `home`. Touches no file. */
export function homePaths(home: string): HomePaths {
  const root = resolve(home);
  return {
    root,
    config: join(root, "config.toml"),
    db: join(root, "sublet.db"),
    socket: socketPath(root),
    pidFile: join(root, "serve.pid"),
    store: join(root, "store"),
    spool: join(root, "spool"),
    tmp: join(root, "tmp"),
    seen: join(root, "seen.sqlite"),
    clones: join(root, "clones"),
    inputs: join(root, "inputs"),
    log: join(root, "serve.log"),
  };
}

function socketPath(root: string): string {
  const plain = join(root, "sublet.sock");
  if (new TextEncoder().encode(plain).length <= SUN_PATH) return plain;
  const hash = createHash("sha256").update(plain).digest("hex").slice(0, 20);
  return join(`/tmp/sublet-${Deno.uid() ?? 0}`, `${hash}.sock`);
}

/** Make the home if it is missing, readable by its owner only, and `tmp` in it. */
export async function makeHome(home: string): Promise<HomePaths> {
  const paths = homePaths(home);
  try {
    await Deno.mkdir(paths.root, { recursive: true, mode: 0o700 });
    await Deno.mkdir(paths.tmp, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new SubletError(
      "config",
      `the home ${paths.root} cannot be made: ${error instanceof Error ? error.message : error}. ` +
        "Set SUBLET_HOME to a directory of yours",
      { cause: error },
    );
  }
  return paths;
}

/**
 * Make the directory of a socket outside the home, and check it: a real directory of this user that nobody else can
 * enter, since `/tmp` is everybody's. Throws `config` when it is something else.
 */
export async function makeSocketDir(paths: HomePaths): Promise<void> {
  const dir = resolve(paths.socket, "..");
  if (dir === paths.root) return;
  await Deno.mkdir(dir, { mode: 0o700 }).catch((error) => {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  });
  const info = await Deno.lstat(dir);
  const mode = (info.mode ?? 0) & 0o777;
  if (info.isDirectory && info.uid === Deno.uid() && (mode & 0o077) === 0) return;
  throw new SubletError(
    "config",
    `the socket cannot be in ${dir}: it must be a real directory of this user with mode 0700. ` +
      "Remove it, or set SUBLET_HOME to a shorter path",
  );
}
