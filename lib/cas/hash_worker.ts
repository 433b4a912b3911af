/**
 * @module A thread that hashes: a Web Worker that `hash_pool.ts` starts. It may do what its starter may, and reads and
 * writes the files that it is told to.
 */

import { messageOf } from "../home/mod.ts";
import { SourceChanged, work } from "./hash_jobs.ts";
import type { FromHasher, ToHasher } from "./hash_messages.ts";
import { concat } from "./streams.ts";
import { createEncoder, type Steps } from "./zstd_steps.ts";

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<ToHasher>) => void;
  postMessage(message: FromHasher, transfer?: Transferable[]): void;
};
const encoders = new Map<number, Steps>();
const NOTHING = new Uint8Array(0);

async function answer(message: ToHasher): Promise<Uint8Array<ArrayBuffer>> {
  if ("job" in message) return work(message.job);
  if ("start" in message) {
    encoders.set(message.encoder, createEncoder(message.start));
    return NOTHING;
  }
  const encoder = encoders.get(message.encoder);
  if (encoder === undefined) throw new Error("there is no such encoder");
  if ("bytes" in message) {
    const parts: Uint8Array[] = [];
    for (const bytes of message.bytes) parts.push(...await encoder.write(bytes));
    return joined(parts);
  }
  if ("end" in message) return joined(await encoder.end());
  encoders.delete(message.encoder);
  encoder.close();
  return NOTHING;
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return concat(parts, parts.reduce((sum, part) => sum + part.length, 0));
}

async function handle(message: ToHasher): Promise<void> {
  const { id } = message;
  try {
    const bytes = await answer(message);
    scope.postMessage({ type: "done", id, bytes }, bytes === NOTHING ? [] : [bytes.buffer]);
  } catch (error) {
    const changed = error instanceof SourceChanged;
    scope.postMessage({ type: "failed", id, message: messageOf(error), changed });
  }
}

scope.onmessage = ({ data }) => void handle(data);
scope.postMessage({ type: "up" });
