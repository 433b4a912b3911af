/**
 * @module What jobs write while they run, as far as it came to the server: parts of their session and logs, in the CAS.
 * Once a job's report is there, its files are what is read.
 */

import { type Cas, type Cid, parseCid } from "../cas/mod.ts";
import { type Clock, type Log, messageOf, SubletError } from "../home/mod.ts";
import type { Db, Tx } from "../store/mod.ts";
import { Waiters } from "./evaluation_waiters.ts";
import { PartJoiner } from "./stream_join.ts";
import { readSlice, sliceOfFile } from "./stream_read.ts";
import { type SavedPart, SESSION_STREAM } from "./stream_shapes.ts";
import { appendPart, partsFrom, streamsOf } from "./stream_store.ts";

/** The most bytes that one read answers. */
export const MAX_READ = 1024 * 1024;
/** Parts that one read looks at. */
const MAX_PARTS = 64;

/** What is known of a job whose streams are read. */
export interface StreamOwner {
  /** Whether it writes no more. */
  readonly over: boolean;
  /** Files of its report by the name of their stream. */
  readonly files: Readonly<Record<string, string>>;
}

/** A stream in a list. */
export interface StreamView {
  readonly stream: string;
  readonly kind: "session" | "log";
  /** Bytes so far; null: not known before it is read. */
  readonly size: number | null;
  readonly over: boolean;
  /** ISO 8601 UTC. Null: it came with the report. */
  readonly updated_at: string | null;
}

/** Bytes of a stream. */
export interface StreamChunk {
  /** Where {@linkcode StreamChunk.bytes} start. Later than asked for: what lies between is not kept. */
  readonly from: number;
  readonly bytes: Uint8Array;
  /** Nothing follows these bytes, now or ever. */
  readonly over: boolean;
}

/** What streams are made of. */
export interface StreamsDeps {
  readonly db: Db;
  readonly cas: Cas;
  readonly clock: Clock;
  readonly log: Log;
  /** What owns a job's streams, or null when there is no such job of ours. */
  readonly owner: (tx: Tx, job: number) => Promise<StreamOwner | null>;
}

/** The streams of a server's jobs. */
export class Streams {
  readonly #deps: StreamsDeps;
  readonly #waiters = new Waiters();
  readonly #joiner: PartJoiner;

  constructor(deps: StreamsDeps) {
    this.#deps = deps;
    this.#joiner = new PartJoiner(deps.db, deps.cas, deps.log);
  }

  /** Whether the CAS lacks the blob of a part: then throws `missing_blobs`. */
  async check({ blob }: SavedPart): Promise<void> {
    if ((await this.#deps.cas.missing([blob])).length === 0) return;
    throw new SubletError("missing_blobs", `the server's CAS lacks the part ${blob}`);
  }

  /** Add a part, in the transaction that saw that its lease holds. Throws as {@linkcode appendPart} does. */
  async append(tx: Tx, job: number, part: SavedPart): Promise<void> {
    const { lease, stream, offset, bytes, blob } = part;
    const now = this.#deps.clock.now();
    await appendPart(tx, job, { lease, stream }, { position: offset, bytes, blob }, now);
    tx.onCommit(() => {
      this.wake(job);
      this.#joiner.added({ lease, stream });
    });
  }

  /** A job's streams came on, or ended. */
  wake(job: number): void {
    this.#waiters.wake(job);
  }

  /** Call `wake` whenever the streams of `job` come on, until the function that is returned is called. */
  subscribe(job: number, wake: () => void): () => void {
    return this.#waiters.subscribe(job, wake);
  }

  /** The streams of a job, by name. Throws `not_found`. */
  async list(job: number): Promise<StreamView[]> {
    const { owner, states } = await this.#deps.db.read(async (tx) => ({
      owner: await this.#owner(tx, job),
      states: await streamsOf(tx, job),
    }));
    const views = new Map<string, StreamView>();
    for (const { stream, size, updatedAt } of states) {
      views.set(stream, {
        stream,
        kind: kindOf(stream),
        size,
        over: owner.over,
        updated_at: new Date(updatedAt).toISOString(),
      });
    }
    for (const stream of Object.keys(owner.files)) {
      views.set(stream, { stream, kind: kindOf(stream), size: null, over: true, updated_at: null });
    }
    return [...views.values()].sort((a, b) => a.stream < b.stream ? -1 : 1);
  }

  /**
   * Bytes of a job's stream from byte `from` on, at most {@linkcode MAX_READ}; none when there are none yet. Throws
   * `not_found` for a job that is not known, or that is over and never had such a stream.
   */
  async read(job: number, stream: string, from: number): Promise<StreamChunk> {
    const { db, cas } = this.#deps;
    const { owner, size, parts } = await db.read(async (tx) => {
      const owner = await this.#owner(tx, job);
      if (Object.hasOwn(owner.files, stream)) return { owner, size: null, parts: [] };
      const state = (await streamsOf(tx, job)).find((each) => each.stream === stream);
      if (state === undefined) return { owner, size: null, parts: [] };
      return { owner, size: state.size, parts: await partsFrom(tx, state, from, MAX_PARTS) };
    });
    const file = Object.hasOwn(owner.files, stream) ? owner.files[stream] : undefined;
    if (file !== undefined) return await sliceOfFile(cas, parseCid(file), from, MAX_READ);
    if (size === null && owner.over) {
      throw new SubletError("not_found", `job ${job} has no ${stream}: see what it has`);
    }
    const slice = await readSlice(cas, parts, from, MAX_READ);
    const end = slice.from + slice.bytes.length;
    // An end that the store lost is never to come.
    return { ...slice, over: owner.over && (end >= (size ?? 0) || slice.bytes.length === 0) };
  }

  /** Bytes that came of a stream so far. */
  async sizeOf(job: number, stream: string): Promise<number> {
    const states = await this.#deps.db.read((tx) => streamsOf(tx, job));
    return states.find((each) => each.stream === stream)?.size ?? 0;
  }

  /** The last bytes of a stream, at most `max`, as they are now. */
  async tail(job: number, stream: string, max: number): Promise<Uint8Array> {
    const states = await this.#deps.db.read((tx) => streamsOf(tx, job));
    const state = states.find((each) => each.stream === stream);
    if (state === undefined) return new Uint8Array();
    const from = Math.max(0, state.size - max);
    const parts = await this.#deps.db.read((tx) => partsFrom(tx, state, from, MAX_PARTS));
    return (await readSlice(this.#deps.cas, parts, from, max)).bytes;
  }

  /**
   * The whole of what came of a stream of an attempt, as one blob: what a lost worker left. Null: nothing did, or some of
   * it is missing.
   */
  async assemble(job: number, lease: number, stream: string): Promise<Cid | null> {
    const { db, cas } = this.#deps;
    const state = (await db.read((tx) => streamsOf(tx, job, lease)))
      .find((each) => each.stream === stream);
    if (state === undefined) return null;
    const parts = await db.read((tx) => partsFrom(tx, state, 0, Number.MAX_SAFE_INTEGER));
    let at = 0;
    for (const { position, bytes } of parts) {
      if (position !== at) return null;
      at += bytes;
    }
    if (at !== state.size) return null;
    let from = 0;
    const source = new ReadableStream<Uint8Array>({
      async pull(controller) {
        if (from >= at) return controller.close();
        const left = parts.filter((part) => part.position + part.bytes > from).slice(0, MAX_PARTS);
        const { bytes } = await readSlice(cas, left, from, MAX_READ);
        if (bytes.length === 0) throw new SubletError("integrity", "a part is not readable");
        from += bytes.length;
        controller.enqueue(bytes);
      },
    });
    try {
      return await cas.putStream(source);
    } catch (error) {
      this.#deps.log.event("streams.not_assembled", { job, stream, error: messageOf(error) });
      return null;
    }
  }

  /** End what runs in the background. */
  async idle(): Promise<void> {
    await this.#joiner.idle();
  }

  async #owner(tx: Tx, job: number): Promise<StreamOwner> {
    const owner = await this.#deps.owner(tx, job);
    if (owner !== null) return owner;
    throw new SubletError("not_found", `there is no job ${job}`);
  }
}

function kindOf(stream: string): "session" | "log" {
  return stream === SESSION_STREAM ? "session" : "log";
}
