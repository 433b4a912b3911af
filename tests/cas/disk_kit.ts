/** @module What tests do to a store's directory behind its back. */

import { type Cid, type Damage, objectName } from "../../lib/cas/mod.ts";

/** The file of a blob's object. */
export const objectPath = (root: string, cid: Cid) => `${root}/blake3/${objectName(cid)}/bytes.zst`;

/** Damage the object of `cid` in the store at `root`, in place. */
export async function damageObject(root: string, cid: Cid, how: Damage): Promise<void> {
  const path = objectPath(root, cid);
  const bytes = await Deno.readFile(path);
  const middle = Math.floor(bytes.length / 2);
  const damaged = {
    "truncated": () => bytes.slice(0, bytes.length - 5),
    "empty": () => new Uint8Array(0),
    "flipped": () => bytes.map((byte, i) => i === middle ? byte ^ 1 : byte),
    "garbage": () => new TextEncoder().encode("this is no zstd frame at all"),
    "followed by other bytes": () => new Uint8Array([...bytes, 0]),
  }[how]();
  await Deno.writeFile(path, damaged);
}

/** Names of the temporary files of the store at `root`. */
export async function leftovers(root: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(`${root}/tmp`))).map((entry) => entry.name);
}
