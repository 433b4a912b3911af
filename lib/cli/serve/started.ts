/** @module How a home's server was started, kept beside its pid, so that a restart starts it the same way. */

import * as z from "zod";
import { type HomePaths, isLoopback, parseAddress } from "../../home/mod.ts";

const started = z.object({
  /** The text of `--listen`; null: none was given. */
  listen: z.string().nullable(),
  /** Where it listened, with its real port; null: only on the socket. */
  address: z.string().nullable(),
});

/** How a server was started. */
export type Started = z.output<typeof started>;

function pathOf(paths: HomePaths): string {
  return `${paths.pidFile}.started`;
}

/** Remember how this server was started. */
export async function rememberStart(paths: HomePaths, how: Started): Promise<void> {
  await Deno.writeTextFile(pathOf(paths), JSON.stringify(how) + "\n", { mode: 0o600 });
}

/** How the last server of this home was started; without `--listen` when nothing says. */
export async function readStart(paths: HomePaths): Promise<Started> {
  try {
    return started.parse(JSON.parse(await Deno.readTextFile(pathOf(paths))));
  } catch {
    return { listen: null, address: null };
  }
}

/**
 * The `--listen` with which the server comes back where it was. `configured` is the address of the config that a server
 * without `--listen` takes. A port of 0 becomes the port that was taken, since workers know that one.
 */
export function listenAgain({ listen, address }: Started, configured: string | null) {
  const wanted = listen ?? configured;
  if (wanted !== null && address !== null && parseAddress(wanted).port === 0) {
    const [was, now] = [parseAddress(address).host, parseAddress(wanted).host];
    if (was === now || isLoopback(was) === isLoopback(now)) return address;
  }
  return listen ?? undefined;
}
