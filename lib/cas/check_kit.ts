/** @module What the rules of a store's contract are made of. */

import { type ErrorCode, isError } from "../home/mod.ts";
import type { Cas, Cid } from "./contract.ts";

/** How a stored object may be damaged. */
export type Damage =
  | "truncated"
  | "empty"
  | "flipped"
  | "garbage"
  | "followed by other bytes"
  | "followed by another frame"
  | "another blob's";

/** What the suite needs besides the store. */
export interface CheckOptions {
  /** An empty directory for files of the suite. */
  readonly scratch: string;
  /** Damages the stored object of a blob behind the store's back. Without it those rules are left out. */
  readonly damage?: (cid: Cid, how: Damage) => Promise<void>;
  /** Names of temporary files that the store has now. Without it those rules are left out. */
  readonly leftovers?: () => Promise<string[]>;
  /** Makes what the store keeps its blobs in fail until it is disposed. Without it those rules are left out. */
  readonly outage?: () => Promise<AsyncDisposable>;
  /** The same store, opened once more, as another process would. Without it those rules are left out. */
  readonly again?: () => Promise<Cas>;
}

/** What a rule gets. */
export interface Bench extends CheckOptions {
  readonly cas: Cas;
  /** Bytes that no other rule and no other run has, `length` or a few more of them, and compressible or not. */
  bytes(name: string, length?: number, dense?: boolean): Uint8Array<ArrayBuffer>;
}

/** One rule of the contract: it throws, or says false, when the store breaks it. */
export type Rule = readonly [rule: string, keeps: (bench: Bench) => Promise<boolean>];

/** Whether `work` fails with one of `codes`. */
export async function fails(work: Promise<unknown>, ...codes: ErrorCode[]) {
  return await work.then(() => false, (error) => isError(error, ...codes));
}

/** Whether two arrays have the same bytes. */
export function same(a: Uint8Array | null, b: Uint8Array): boolean {
  if (a === null || a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** `bytes` as a stream of small pieces. */
export function inPieces(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at < bytes.length) controller.enqueue(bytes.slice(at, at += size));
      else controller.close();
    },
  });
}

/** Names of the files in `directory`, sorted. */
export async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of Deno.readDir(directory)) names.push(entry.name);
  return names.sort();
}
