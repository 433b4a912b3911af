/** @module Compresses a blob in a thread, or in this one where there are none: see `frame_writer.ts`. */

import type { Batch } from "./frame_batch.ts";
import type { PoolEncoder } from "./hash_pool.ts";
import { hashPool, startHashPool } from "./hash_pool.ts";
import { createEncoder, type Steps } from "./zstd_steps.ts";

/** Blobs of so many bytes are compressed in a thread, if one is up; of the second, one is waited for. */
const POOL_FROM = 1024 * 1024;
const START_FROM = 32 * 1024 * 1024;

/** Compresses batches into one frame. */
export interface BatchEncoder {
  write(batch: Batch): Promise<Uint8Array[]>;
  end(): Promise<Uint8Array[]>;
  close(): void;
}

/** In this thread. */
class LocalEncoder implements BatchEncoder {
  constructor(readonly steps: Steps) {}

  async write(batch: Batch): Promise<Uint8Array[]> {
    const parts: Uint8Array[] = [];
    for (const block of batch.content()) parts.push(...await this.steps.write(block));
    return parts;
  }

  end(): Promise<Uint8Array[]> {
    return this.steps.end();
  }

  close(): void {
    this.steps.close();
  }
}

/** In another one. */
class RemoteEncoder implements BatchEncoder {
  constructor(readonly encoder: PoolEncoder) {}

  async write(batch: Batch): Promise<Uint8Array[]> {
    const { bytes, batch: memory } = await this.encoder.write(batch.bytes.buffer, batch.used);
    batch.bytes = new Uint8Array(memory);
    return [bytes];
  }

  async end(): Promise<Uint8Array[]> {
    return [await this.encoder.end()];
  }

  close(): void {
    this.encoder.close();
  }
}

/** An encoder of the blob of `length` bytes, as far as that is known. */
export function encoderOf(length: number): BatchEncoder {
  const chosen = choose(length);
  return {
    write: async (batch) => await (await chosen).write(batch),
    end: async () => await (await chosen).end(),
    close: () => void chosen.then((encoder) => encoder.close()),
  };
}

async function choose(length: number): Promise<BatchEncoder> {
  const pool = length >= START_FROM ? await startHashPool() : hashPool();
  return pool === null || length < POOL_FROM
    ? new LocalEncoder(createEncoder(length))
    : new RemoteEncoder(pool.encoder(length));
}
