/** @module Stopping this home's server, and starting it again the same way. */

import { formatAddress, homeDir, type HomePaths, homePaths, SubletError } from "../../home/mod.ts";
import { messageOf } from "../../home/mod.ts";
import type { Output } from "../output.ts";
import { runningServer } from "../server_lock.ts";
import { RESTART } from "../signals.ts";
import { checkServe } from "./check.ts";
import { detach } from "./detach.ts";
import { readSettings } from "./settings.ts";
import { listenAgain, readStart } from "./started.ts";

/** Stop the server of this home, and wait for its end. Throws `not_found`, and `failed` when it still runs. */
export async function stopServer(seconds: number, output: Output): Promise<void> {
  const { paths, pid } = await running();
  await end(paths, pid, seconds, "SIGTERM");
  output.note(`server ${pid} stopped`);
}

/**
 * Stop the server of this home, and start it again in the background where it listened. One that could not start again
 * is not stopped: throws `config` then. Its agents go on, and the next one takes them over.
 */
export async function restartServer(seconds: number, output: Output): Promise<void> {
  const { paths, pid } = await running();
  let listen: string | undefined;
  try {
    const { config } = await readSettings(undefined);
    const configured = config.network.listen;
    listen = listenAgain(
      await readStart(paths),
      configured === null ? null : formatAddress(configured),
    );
    await checkServe(listen, { line: () => {} });
  } catch (error) {
    throw new SubletError(
      error instanceof SubletError ? error.code : "failed",
      `server ${pid} is not restarted, and keeps running, because it could not start again: ${
        messageOf(error)
      }`,
      { cause: error },
    );
  }
  await end(paths, pid, seconds, RESTART);
  output.note(`server ${pid} stopped`);
  await detach(listen, output);
}

async function running(): Promise<{ paths: HomePaths; pid: number }> {
  const paths = homePaths(homeDir());
  const pid = await runningServer(paths);
  if (pid === null) throw new SubletError("not_found", `no server is running in ${paths.root}`);
  return { paths, pid };
}

async function end(
  paths: HomePaths,
  pid: number,
  seconds: number,
  signal: Deno.Signal,
): Promise<void> {
  Deno.kill(pid, signal);
  const deadline = performance.now() + seconds * 1000;
  while (await runningServer(paths) === pid) {
    if (performance.now() > deadline) {
      throw new SubletError(
        "failed",
        `server ${pid} still runs after ${seconds} s: give it longer (--timeout 60), or kill it`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
