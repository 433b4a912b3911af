/** @module What tests do to a store's directory behind its back. */

import { type Cid, type Damage, damagedObject, objectName } from "../../lib/cas/mod.ts";

/** The file of a blob's object. */
export const objectPath = (root: string, cid: Cid) => `${root}/blake3/${objectName(cid)}/bytes.zst`;

/** Damage the object of `cid` in the store at `root`, in place. */
export async function damageObject(root: string, cid: Cid, how: Damage): Promise<void> {
  const path = objectPath(root, cid);
  await Deno.writeFile(path, damagedObject(await Deno.readFile(path), how));
}

/** Names of the temporary files of the store at `root`. */
export async function leftovers(root: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(`${root}/tmp`))).map((entry) => entry.name);
}

/** Put a file in the place of the directory `path`, until it is disposed. */
export async function takeAway(path: string): Promise<AsyncDisposable> {
  await Deno.rename(path, `${path}.away`);
  await Deno.writeTextFile(path, "in the way");
  return {
    async [Symbol.asyncDispose]() {
      await Deno.remove(path);
      await Deno.rename(`${path}.away`, path);
    },
  };
}
