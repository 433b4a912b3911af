/**
 * @module The journal of a disk store: small blobs that arrive together are made durable by one sync of one file, while
 * their objects get to their places without a sync of their own. After a crash of the machine, whoever opens the store
 * next puts back what the file has and the directories lack.
 *
 * `<root>/journal/<id>.<n>.log` has records one behind the other, and zeros behind them: the magic, the length of a frame,
 * the digest of its blob (32 bytes), the frame. A record proves itself by its content. `<id>.lock` is held by the process
 * that writes them.
 */

import { digestOf } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { fileError } from "./files.ts";
import { syncDirectory } from "./sync_dir.ts";

/** `slj1`, as a little-endian number. */
export const MAGIC = 0x316a6c73;
/** Bytes of a record before its frame. */
export const RECORD = 40;
/** Larger frames are not worth writing twice. */
export const JOURNAL_FRAME_MAX = 16 * 1024;

/** The file is made ready so many bytes ahead, so that a sync need not wait for its size and its place on the disk. */
const AHEAD = 2 * 1024 * 1024;

/** A small blob and its object. */
export interface SmallObject {
  readonly cid: Cid;
  readonly frame: Uint8Array;
}

/** The record of each of `objects`, one behind the other. */
export function encodeRecords(objects: readonly SmallObject[]): Uint8Array<ArrayBuffer> {
  const length = objects.reduce((sum, { frame }) => sum + RECORD + frame.length, 0);
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const { cid, frame } of objects) {
    view.setUint32(at, MAGIC, true);
    view.setUint32(at + 4, frame.length, true);
    bytes.set(digestOf(cid), at + 8);
    bytes.set(frame, at + RECORD);
    at += RECORD + frame.length;
  }
  return bytes;
}

/** One file of the journal, open for appending. */
export class JournalFile {
  readonly #file: Deno.FsFile;
  /** Syncs of one handle wait for each other, and nothing can be written through it meanwhile. */
  readonly #handles: Deno.FsFile[];
  #turn = 0;
  #ready = 0;
  #at = 0;
  /** How many records it has. */
  count = 0;

  private constructor(readonly path: string, file: Deno.FsFile, handles: Deno.FsFile[]) {
    this.#file = file;
    this.#handles = handles;
  }

  /** A new file at `path`, durably there. */
  static async create(path: string): Promise<JournalFile> {
    const open: Deno.FsFile[] = [];
    try {
      open.push(Deno.openSync(path, { write: true, createNew: true, mode: 0o644 }));
      for (let i = 0; i < 2; i++) open.push(Deno.openSync(path));
      const [file, ...handles] = open as [Deno.FsFile, ...Deno.FsFile[]];
      const journal = new JournalFile(path, file, handles);
      journal.#prepare(AHEAD);
      await file.sync();
      await syncDirectory(path.slice(0, path.lastIndexOf("/")));
      return journal;
    } catch (error) {
      for (const file of open) file.close();
      throw fileError(error, `cannot make ${path}`, "unavailable");
    }
  }

  /** Bytes of records. */
  get length(): number {
    return this.#at;
  }

  /** Write zeros up to `end` at least. */
  #prepare(end: number): void {
    if (end <= this.#ready) return;
    const zeros = new Uint8Array(Math.ceil((end - this.#ready) / AHEAD) * AHEAD);
    this.#writeAt(zeros, this.#ready);
    this.#ready += zeros.length;
  }

  #writeAt(bytes: Uint8Array, at: number): void {
    this.#file.seekSync(at, Deno.SeekMode.Start);
    for (let done = 0; done < bytes.length;) done += this.#file.writeSync(bytes.subarray(done));
  }

  /** Append `objects` at once, and wait until they are on the disk. Those before them are, too, by then. */
  async append(objects: readonly SmallObject[]): Promise<void> {
    const records = encodeRecords(objects);
    this.count += objects.length;
    try {
      this.#prepare(this.#at + records.length);
      this.#writeAt(records, this.#at);
      this.#at += records.length;
      await this.#handles[this.#turn++ % this.#handles.length]?.syncData();
    } catch (error) {
      throw fileError(error, `cannot write ${this.path}`, "unavailable");
    }
  }

  /** Close it. It stays where it is. */
  close(): void {
    for (const file of [this.#file, ...this.#handles]) file.close();
  }
}
