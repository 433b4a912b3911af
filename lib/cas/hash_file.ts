/** @module The address of a file's content, without storing it. */

import { createHasher } from "./blake3.ts";
import { cidOfDigest } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { fileError } from "./files.ts";

/** The raw CID of the file at `path`; `not_found` when there is none, `unavailable` when it cannot be read. */
export async function hashFile(path: string): Promise<Cid> {
  const hasher = createHasher();
  try {
    using file = await Deno.open(path);
    const buffer = new Uint8Array(1024 * 1024);
    while (true) {
      const count = await file.read(buffer);
      if (count === null) break;
      hasher.update(buffer.subarray(0, count));
    }
  } catch (error) {
    throw fileError(error, `cannot read ${path}`, "not_found");
  }
  return cidOfDigest(hasher.digest());
}
