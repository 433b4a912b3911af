/** @module The file whose sync makes commits durable: SQLite's write-ahead log, synced off the event loop. */

/** Windows wants a file that may be written for a sync. */
const OPEN = { read: true, write: true } as const;

/**
 * The write-ahead log of a database. SQLite in WAL mode with `synchronous = NORMAL` writes each commit into it without a
 * sync, and syncs it itself before a checkpoint, so a sync of this file after the commit gives what `FULL` gives
 * (https://www.sqlite.org/pragma.html#pragma_synchronous). Its locks are on other files: closing this one drops none.
 */
export class SyncedFile {
  readonly #path: string;
  #file: Deno.FsFile | null = null;

  /** It is opened now, if it is there: later this process may have no file left to open. */
  constructor(path: string) {
    this.#path = path;
    try {
      this.#file = Deno.openSync(path, OPEN);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }

  /** Bring what was written so far onto the disk. The file is there from the first commit on, until all close it. */
  async sync(): Promise<void> {
    this.#file ??= await Deno.open(this.#path, OPEN);
    await this.#file.syncData();
  }

  close(): void {
    this.#file?.close();
    this.#file = null;
  }
}
