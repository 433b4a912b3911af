/**
 * @module Small puts that arrive together: their objects share one sync of the journal, and get their names after it. A
 * put that comes alone syncs its own file, as large ones do.
 */

import { setImmediate } from "node:timers";
import { objectName } from "./cid.ts";
import { JOURNAL_FRAME_MAX, type JournalFile, type SmallObject } from "./disk_journal.ts";
import { Journals } from "./disk_journals.ts";
import { TempFile } from "./temp_file.ts";

/** From so many on, puts share a sync. */
const TOGETHER = 3;
/** Those that come within so many milliseconds of such puts go the same way, however few they are. */
const WARM_MS = 1_000;
/** The most that share one. */
const BATCH = 128;
/** Batches under way at once. */
const FLUSHES = 2;

interface Waiting extends SmallObject {
  resolve(): void;
  reject(error: unknown): void;
}

/** Gathers small puts into the store at a root. */
export class SmallPuts implements AsyncDisposable {
  readonly #root: string;
  readonly #alone: (object: SmallObject) => Promise<void>;
  readonly #journals: Journals;
  readonly #queue: Waiting[] = [];
  readonly #flushing = new Set<Promise<void>>();
  #scheduled = false;
  #warmUntil = 0;

  /** `alone` stores one object durably, by itself. */
  constructor(root: string, alone: (object: SmallObject) => Promise<void>) {
    this.#root = root;
    this.#alone = alone;
    this.#journals = new Journals(root);
  }

  /** Store `object`, durably. Its directory is there. */
  add(object: SmallObject): Promise<void> {
    if (object.frame.length > JOURNAL_FRAME_MAX) return this.#alone(object);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#queue.push({ ...object, resolve, reject });
    this.#schedule();
    return promise;
  }

  #schedule(): void {
    if (this.#scheduled || this.#flushing.size >= FLUSHES || this.#queue.length === 0) return;
    this.#scheduled = true;
    // What arrives in this turn of the event loop goes along.
    setImmediate(() => {
      this.#scheduled = false;
      const flush = this.#flush().finally(() => {
        this.#flushing.delete(flush);
        this.#schedule();
      });
      this.#flushing.add(flush);
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#queue.splice(0, BATCH);
    const now = performance.now();
    const shared = batch.length >= TOGETHER || now < this.#warmUntil;
    if (batch.length >= TOGETHER) this.#warmUntil = now + WARM_MS;
    if (shared && await this.#journals.use((file) => this.#together(file, batch))) return;
    await Promise.all(batch.map(async (waiting) => {
      try {
        await this.#alone(waiting);
        waiting.resolve();
      } catch (error) {
        waiting.reject(error);
      }
    }));
  }

  /** Store `batch` by way of `file`. Rejects when that cannot be used, and then nobody has been told anything. */
  async #together(file: JournalFile, batch: readonly Waiting[]): Promise<void> {
    const synced = file.append(batch);
    synced.catch(() => {});
    // While the disk is busy.
    const written = batch.map((waiting) => ({ waiting, temp: this.#write(waiting) }));
    try {
      await synced;
    } catch (error) {
      for (const { temp } of written) await temp?.[Symbol.asyncDispose]();
      throw error;
    }
    // Nobody may see an object that a crash could still take away.
    for (const { waiting, temp } of written) if (temp !== null) this.#place(waiting, temp);
  }

  /** A temporary file with the object, or null when there can be none. */
  #write({ frame, reject }: Waiting): TempFile | null {
    let temp: TempFile | null = null;
    try {
      temp = TempFile.create(`${this.#root}/tmp`);
      temp.appendSync(frame);
      return temp;
    } catch (error) {
      reject(error);
      void temp?.[Symbol.asyncDispose]();
      return null;
    }
  }

  #place({ cid, resolve, reject }: Waiting, temp: TempFile): void {
    try {
      temp.place(`${this.#root}/blake3/${objectName(cid)}/bytes.zst`);
      resolve();
    } catch (error) {
      reject(error);
      void temp[Symbol.asyncDispose]();
    }
  }

  /** Wait for what is under way, and for the disk. Nothing may be added any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    while (this.#queue.length > 0 || this.#flushing.size > 0) {
      await Promise.all(this.#flushing);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await this.#journals[Symbol.asyncDispose]();
  }
}
