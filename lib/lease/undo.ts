/** @module Transactions whose changes of memory are undone with them. */

import type { Db, Tx, WriteOptions } from "../store/mod.ts";

/** Call the function when the transaction is undone: its body threw, or its commit failed. Last one first. */
export type Undo = (back: () => void) => void;

/** `db.write`, for a body that also changes memory in a way that later bodies of the same commit must see. */
export async function writeUndoable<T>(
  db: Db,
  body: (tx: Tx, undo: Undo) => Promise<T>,
  options?: WriteOptions,
): Promise<T> {
  const backs: (() => void)[] = [];
  const goBack = () => {
    for (let back = backs.pop(); back !== undefined; back = backs.pop()) back();
  };
  try {
    return await db.write(async (tx) => {
      // It may have run before, in a transaction that was undone.
      goBack();
      try {
        return await body(tx, (back) => backs.push(back));
      } catch (error) {
        goBack();
        throw error;
      }
    }, options);
  } catch (error) {
    goBack();
    throw error;
  }
}
