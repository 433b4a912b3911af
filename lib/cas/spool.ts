/** @module Where bytes of unknown length and address wait until both are known. */

import { createHasher } from "./blake3.ts";
import { cidOf, cidOfDigest } from "./cid.ts";
import type { Cid, Limits } from "./contract.ts";
import { fileError, readPart, readThrough } from "./files.ts";
import { checkAddress } from "./limits.ts";
import { concat, drain, streamFrom, streamOf } from "./streams.ts";

/** Up to this size they wait in memory. */
const IN_MEMORY = 1024 * 1024;

/** A blob whose address and length are known, to be read as often as needed. */
export interface Spooled extends AsyncDisposable {
  readonly cid: Cid;
  readonly length: number;
  /** All of it, when it is in memory. */
  readonly bytes: Uint8Array | null;
  /** Its bytes from `from` up to and without `to`. */
  open(from?: number, to?: number): ReadableStream<Uint8Array>;
}

/** A store that sends a blob from where it is, though a stream would have to wait somewhere until it is known. */
export interface TakesKnown {
  putKnown(blob: Spooled): Promise<Cid>;
}

/** `data` as it is. */
export function spooledBytes(data: Uint8Array, cid = cidOf(data)): Spooled {
  return {
    cid,
    length: data.length,
    bytes: data,
    open: (from = 0, to = data.length) => streamOf(data.subarray(from, to)),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** The file at `path`, as it is; `not_found` when there is none. */
export async function spooledFile(path: string): Promise<Spooled> {
  const hasher = createHasher();
  let length = 0;
  await readThrough(path, (bytes) => {
    hasher.update(bytes);
    length += bytes.length;
  });
  return {
    cid: cidOfDigest(hasher.digest()),
    length,
    bytes: null,
    open: (from = 0, to = length) => streamFrom(readPart(path, from, to)),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** All of `source`, in memory or in a file in `directory`, within `limits`. The file is gone when it is disposed. */
export async function spool(
  source: ReadableStream<Uint8Array>,
  limits: Limits,
  directory?: string,
): Promise<Spooled> {
  const hasher = createHasher();
  const parts: Uint8Array[] = [];
  const files = new AsyncDisposableStack();
  let file: Deno.FsFile | null = null;
  let path = "";
  let held = 0;
  const write = async (bytes: Uint8Array) => {
    for (let at = 0; at < bytes.length;) at += await file?.write(bytes.subarray(at)) ?? 0;
  };
  try {
    const length = await drain(source, limits, async (bytes) => {
      hasher.update(bytes);
      held += bytes.length;
      if (held <= IN_MEMORY) return void parts.push(bytes.slice());
      try {
        if (file === null) {
          path = await Deno.makeTempFile({
            ...(directory === undefined ? {} : { dir: directory }),
            suffix: ".spool",
          });
          file = await Deno.open(path, { write: true });
          files.defer(() => Deno.remove(path));
          files.use(file);
          for (const part of parts.splice(0)) await write(part);
        }
        await write(bytes);
      } catch (error) {
        throw fileError(
          error,
          `cannot keep a stream in ${directory ?? "the temporary directory"}`,
          "unavailable",
        );
      }
    });
    const cid = cidOfDigest(hasher.digest());
    checkAddress(cid, limits);
    if (file === null) return spooledBytes(concat(parts, length), cid);
    const kept = files.move();
    return {
      cid,
      length,
      bytes: null,
      open: (from = 0, to = length) => streamFrom(readPart(path, from, to)),
      [Symbol.asyncDispose]: () => kept.disposeAsync(),
    };
  } finally {
    await files.disposeAsync();
  }
}
