/**
 * @module Which process of a worker this is: one lock for each credential in a home, and a file that remembers the
 * processes that the server may still take for the living one.
 */

import { createHash } from "node:crypto";
import * as z from "zod";
import {
  type Ids,
  isError,
  type Log,
  messageOf,
  openBeneath,
  SubletError,
  writeBeneath,
} from "../../home/mod.ts";
import { ProcessLock } from "../../store/mod.ts";
import type { Incarnation } from "../worker_options.ts";

const WHAT = "the worker's incarnation";
/** How many processes that may have registered are remembered. */
const MAX_TRIED = 15;

/** `registered`: the last that the server took in, as far as this file knows. `tried`: those that started since. */
const remembered = z.object({
  registered: z.string().max(200).nullable(),
  tried: z.array(z.string().max(200)).max(MAX_TRIED + 1),
});

/** What stands for a credential in the names of files: tells it from others, and says nothing of it. */
export function lockKey(token: string): string {
  return createHash("sha256").update(token).digest("hex").slice(0, 16);
}

/**
 * Be the one process of the worker `key` in `home` until the lock is disposed of or the process ends. Throws
 * `conflict` when another one is.
 */
export function takeWorker(home: string, key: string): ProcessLock {
  const lock = ProcessLock.tryTake(`${home}/worker-${key}.lock`);
  if (lock !== null) return lock;
  throw new SubletError(
    "conflict",
    `another worker process with this token runs on ${home}: stop it first, or give this one a token ` +
      "of its own or another SUBLET_HOME",
  );
}

/** This process as the next of the worker `key` in `home`, whose lock it holds. */
export async function nextIncarnation(
  home: string,
  key: string,
  ids: Ids,
  log: Log,
): Promise<Incarnation> {
  const path = `worker-${key}.json`;
  const write = async (registered: string | null, tried: readonly string[]) => {
    const text = JSON.stringify({ registered, tried: tried.slice(-MAX_TRIED) });
    const bytes = new TextEncoder().encode(text + "\n");
    await writeBeneath(home, path, bytes, { what: WHAT, sync: true });
  };
  const { registered, tried } = await read(home, path, log);
  const id = ids.uuid();
  await write(registered, [...tried, id]);
  return {
    id,
    // The one that is known to have registered goes first: only it can have leases.
    succeeds: [...(registered === null ? [] : [registered]), ...tried.toReversed()],
    registered: () => write(id, []),
  };
}

async function read(home: string, path: string, log: Log): Promise<z.output<typeof remembered>> {
  try {
    await using file = await openBeneath(home, path, { what: WHAT });
    const text = new TextDecoder().decode(await file.bytes(65_536));
    return remembered.parse(JSON.parse(text));
  } catch (error) {
    // A first start has none. One that cannot be read costs a wait: the server takes its predecessor for alive.
    if (!isError(error, "not_found")) {
      log.event("worker.incarnation_unread", { path, error: messageOf(error) });
    }
    return { registered: null, tried: [] };
  }
}
