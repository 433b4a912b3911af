/** @module One upload in parts. */

import { type Clock, SubletError } from "../home/mod.ts";
import type { Cid, Limits } from "./contract.ts";
import { PART, type PartFile } from "./part_file.ts";
import { PartWriter } from "./part_writer.ts";
import { drain } from "./streams.ts";

/** A part on its way. */
interface Sending {
  readonly from: number;
  readonly to: number;
  readonly stop: AbortController;
  readonly ended: Promise<unknown>;
}

/** An upload that is open. */
export class Upload {
  readonly #clock: Clock;
  readonly #load: () => Promise<PartFile | null>;
  #file: Promise<PartFile | null> | null = null;
  #known: PartFile | null = null;
  readonly #sending = new Set<Sending>();
  #finishing: Promise<void> | null = null;
  /** When its last part came, Unix ms. */
  touchedAt: number;

  constructor(
    readonly id: string,
    readonly cid: Cid,
    readonly length: number,
    readonly token: string,
    clock: Clock,
    load: () => Promise<PartFile | null>,
  ) {
    this.#clock = clock;
    this.#load = load;
    this.touchedAt = clock.now();
  }

  /** Its file, read when it is first asked for. Null: it is gone. */
  readonly file = (): Promise<PartFile | null> => this.#file ??= this.#read();

  async #read(): Promise<PartFile | null> {
    try {
      return this.#known = await this.#load();
    } catch (error) {
      // The disk may be well the next time.
      this.#file = null;
      throw error;
    }
  }

  /** Bytes that are missing; all, as long as the file was not read. */
  get left(): number {
    return this.#known?.left ?? this.length;
  }

  /** Whether parts of it are on their way. */
  get busy(): boolean {
    return this.#sending.size > 0 || this.#finishing !== null;
  }

  /**
   * Take the part that starts at `from`, of `length` bytes. What of it is there already is passed over. Another part that
   * is on its way to the same place is ended: its connection is most likely dead. Throws `invalid_request` for a part
   * that cannot be.
   */
  async take(
    from: number,
    length: number,
    source: ReadableStream<Uint8Array> | null,
    limits: Limits,
  ): Promise<void> {
    const to = from + length;
    this.#checkPlace(from, to);
    if (length === 0) return;
    await this.#end(from, to, takenOver());
    const file = await this.file();
    if (file === null) throw new SubletError("conflict", "the upload's file is gone: begin again");
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, ...limits.signal ? [limits.signal] : []]);
    const work = this.#write(file, from, source, { ...limits, expectedLength: length, signal });
    const sending = { from, to, stop, ended: work.catch(() => {}) };
    this.#sending.add(sending);
    try {
      await work;
    } catch (error) {
      throw stop.signal.aborted ? stop.signal.reason : error;
    } finally {
      this.#sending.delete(sending);
      this.touchedAt = this.#clock.now();
    }
  }

  #checkPlace(from: number, to: number): void {
    if (to > this.length) {
      throw new SubletError(
        "invalid_request",
        `the part ends at ${to}, and the blob ${this.cid} has only ${this.length} bytes`,
      );
    }
    if ((from % PART === 0 || from === this.length) && (to % PART === 0 || to === this.length)) {
      return;
    }
    throw new SubletError(
      "conflict",
      `the part from ${from} to ${to} of blob ${this.cid} has to start and end at a multiple of ${PART}, or at the ` +
        "blob's end: ask the upload what is missing",
    );
  }

  async #write(
    file: PartFile,
    from: number,
    source: ReadableStream<Uint8Array> | null,
    limits: Limits,
  ): Promise<void> {
    await using writer = await PartWriter.open(file, from / PART);
    let failure: unknown = null;
    try {
      await drain(source ?? new Blob([]).stream(), limits, (bytes) => writer.write(bytes));
    } catch (error) {
      failure = error;
    }
    // What came of a part that broke off is kept, block by block.
    await writer.finish();
    if (failure !== null) throw failure;
  }

  /** End the parts that go to a place between `from` and `to`, and wait for their end. */
  async #end(from: number, to: number, reason: SubletError): Promise<void> {
    const hit = [...this.#sending].filter((other) => other.from < to && from < other.to);
    for (const other of hit) other.stop.abort(reason);
    await Promise.all(hit.map((other) => other.ended));
  }

  /** End all parts, and wait for their end. */
  async stop(reason: SubletError): Promise<void> {
    await this.#end(-1, Infinity, reason);
    await (await this.#file)?.settle();
  }

  /** Run `work`, which stores the blob, once at a time. */
  once(work: () => Promise<void>): Promise<void> {
    return this.#finishing ??= work().finally(() => this.#finishing = null);
  }
}

function takenOver(): SubletError {
  return new SubletError("conflict", "another request sends this part of the upload now");
}
