/** @module The file of a Unix socket, which is taken over only from a server that is gone. `Deno.serve` removes it. */

import { SubletError } from "../home/mod.ts";

/** Make `path` free to listen on. Throws `conflict` when somebody answers there, or when it is no socket. */
export async function claimSocket(path: string): Promise<void> {
  const old = await lstat(path);
  if (old === null) return;
  if (!old.isSocket) {
    throw new SubletError("conflict", `${path} is in the way of a socket: move it away`);
  }
  if (await answers(path)) {
    throw new SubletError("conflict", `another server answers on ${path}: stop it first`);
  }
  await Deno.remove(path);
}

/** Shut everybody else out of the socket, once it is there. */
export async function closeToOthers(path: string): Promise<void> {
  if (Deno.build.os !== "windows") await Deno.chmod(path, 0o600);
}

/** Whether there is a socket at `path`. Its listener removes it when it ends. */
export function isSocket(path: string): boolean {
  try {
    return Deno.lstatSync(path).isSocket === true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

async function lstat(path: string): Promise<Deno.FileInfo | null> {
  try {
    return await Deno.lstat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

async function answers(path: string): Promise<boolean> {
  try {
    (await Deno.connect({ transport: "unix", path })).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionRefused) return false;
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
