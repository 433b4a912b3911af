/**
 * @module A thread that hashes: a Web Worker that `hash_pool.ts` starts. It may do what its starter may, and reads and
 * writes the files that it is told to.
 */

import { messageOf } from "../home/mod.ts";
import { blocksOf, SourceChanged, work } from "./hash_jobs.ts";
import type { FromHasher, HashAnswer, ToHasher } from "./hash_messages.ts";
import { concat } from "./streams.ts";
import { createEncoder, type Steps } from "./zstd_steps.ts";

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<ToHasher>) => void;
  postMessage(message: FromHasher, transfer?: Transferable[]): void;
};
const encoders = new Map<number, Steps>();
const NOTHING = new Uint8Array(0);

async function answer(message: ToHasher): Promise<HashAnswer> {
  if ("job" in message) return { bytes: work(message.job) };
  if ("pieces" in message) {
    const { batch, pieces, first } = message;
    return { bytes: work({ type: "batch", bytes: new Uint8Array(batch), pieces, first }), batch };
  }
  const { encoder } = message;
  if ("start" in message) {
    encoders.set(encoder, createEncoder(message.start));
    return { bytes: NOTHING };
  }
  const steps = encoders.get(encoder);
  if (steps === undefined) throw new Error("there is no such encoder");
  if ("batch" in message) {
    const { batch, used } = message;
    const parts: Uint8Array[] = [];
    for (const block of blocksOf(new Uint8Array(batch), used)) {
      parts.push(...await steps.write(block));
    }
    return { bytes: joined(parts), batch };
  }
  if ("end" in message) return { bytes: joined(await steps.end()) };
  encoders.delete(encoder);
  steps.close();
  return { bytes: NOTHING };
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return concat(parts, parts.reduce((sum, part) => sum + part.length, 0));
}

async function handle(message: ToHasher): Promise<void> {
  const { id } = message;
  try {
    const found = await answer(message);
    const transfer = found.bytes === NOTHING ? [] : [found.bytes.buffer];
    if (found.batch !== undefined) transfer.push(found.batch);
    scope.postMessage({ type: "done", id, answer: found }, transfer);
  } catch (error) {
    const changed = error instanceof SourceChanged;
    scope.postMessage({ type: "failed", id, message: messageOf(error), changed });
  }
}

scope.onmessage = ({ data }) => void handle(data);
scope.postMessage({ type: "up" });
