/** @module Errors of a store in one SQLite file, which name the blob. */

import type { Cid } from "./contract.ts";
import { isDamage } from "./sqlite_rows.ts";
import { blobError, damagedBlob } from "./verify.ts";

/** The result of `work` on the blob, whose address its errors name. */
export async function naming<T>(cid: Cid, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw blobError(cid, error);
  }
}

/** The result of reading the blob by `work`. A damaged page of the file is a damaged blob. */
export async function named<T>(cid: Cid, work: () => Promise<T>): Promise<T> {
  return await naming(cid, () =>
    work().catch((error) => {
      throw isDamage(error) ? damagedBlob(cid, "a page of its file is", error) : error;
    }));
}
