/**
 * @module One server per home: a lock that dies with its process, and the pid file that names it.
 *
 * The lock is an SQLite file held exclusively: a POSIX lock of the kernel's, free the moment its holder is gone, on
 * every platform and on Deno versions without `FsFile.tryLock`.
 */

import type { HomePaths } from "../home/mod.ts";
import { SubletError } from "../home/mod.ts";
import { ProcessLock } from "../store/mod.ts";

/** The pid of the server that holds the home, or null when none does. */
export async function runningServer(paths: HomePaths): Promise<number | null> {
  if (!await Deno.stat(lockPath(paths)).then(() => true, () => false)) return null;
  const lock = ProcessLock.tryTake(lockPath(paths));
  if (lock !== null) {
    lock[Symbol.dispose]();
    return null;
  }
  const pid = Number(await Deno.readTextFile(paths.pidFile).catch(() => ""));
  return Number.isInteger(pid) && pid > 0 ? pid : null;
}

/** Take the home for this process, or refuse, naming the server that has it. */
export async function takeHome(paths: HomePaths): Promise<Disposable> {
  const lock = ProcessLock.tryTake(lockPath(paths));
  if (lock === null) {
    const pid = await Deno.readTextFile(paths.pidFile).catch(() => "unknown");
    throw new SubletError(
      "conflict",
      `a server (pid ${pid.trim()}) already runs in ${paths.root}: stop it with \`sublet stop\`, or set another SUBLET_HOME`,
    );
  }
  await Deno.writeTextFile(paths.pidFile, `${Deno.pid}\n`, { mode: 0o600 });
  return lock;
}

function lockPath(paths: HomePaths): string {
  return `${paths.pidFile}.lock`;
}
