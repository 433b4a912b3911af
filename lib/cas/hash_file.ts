/** @module The address of a file's content, without storing it. */

import { createHasher } from "./blake3.ts";
import { cidOfDigest } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { CopySource } from "./copy_file.ts";
import { readThrough } from "./files.ts";

/**
 * The raw CID of the file at `path`; `not_found` when there is none, `unavailable` when it cannot be read, `conflict` when
 * it is large and changes meanwhile.
 */
export async function hashFile(path: string): Promise<Cid> {
  {
    using source = await CopySource.open(path);
    if (source !== null) return cidOfDigest(await source.copy(null));
  }
  const hasher = createHasher();
  await readThrough(path, (bytes) => hasher.update(bytes));
  return cidOfDigest(hasher.digest());
}
