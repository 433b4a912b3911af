/** @module The file of a Unix socket: taken over only from a server that is gone, and removed at the end. */

import { SubletError } from "../home/mod.ts";

/** A socket's path that is this process's to listen on. */
export interface ClaimedSocket {
  /** To call once it listens: shuts everybody else out of the file. */
  listening(): Promise<void>;
  /** Remove the file, unless another server made a new one there. */
  release(): Promise<void>;
}

/** Take `path`. Throws `conflict` when somebody answers on it, or when it is no socket. */
export async function claimSocket(path: string): Promise<ClaimedSocket> {
  const old = await lstat(path);
  if (old !== null) {
    if (!old.isSocket) {
      throw new SubletError("conflict", `${path} is in the way of a socket: move it away`);
    }
    if (await answers(path)) {
      throw new SubletError("conflict", `another server answers on ${path}: stop it first`);
    }
    await Deno.remove(path);
  }
  let ino: number | null = null;
  return {
    async listening() {
      if (Deno.build.os !== "windows") await Deno.chmod(path, 0o600);
      ino = (await Deno.lstat(path)).ino;
    },
    async release() {
      if ((await lstat(path))?.ino === ino) await Deno.remove(path).catch(() => {});
    },
  };
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
