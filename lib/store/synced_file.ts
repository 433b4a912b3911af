/** @module The file whose sync makes commits durable: SQLite's write-ahead log, synced off the event loop. */

/**
 * The write-ahead log of a database. SQLite in WAL mode with `synchronous = NORMAL` writes each commit into it without a
 * sync, and syncs it itself before a checkpoint, so a sync of this file after the commit gives what `FULL` gives
 * (https://www.sqlite.org/pragma.html#pragma_synchronous). Its locks are on other files: closing this one drops none.
 */
export class SyncedFile {
  readonly #path: string;
  #file: Deno.FsFile | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  /** Bring what was written so far onto the disk. The file is there from the first commit on, until all close it. */
  async sync(): Promise<void> {
    this.#file ??= await Deno.open(this.#path, { read: true, write: true });
    await this.#file.syncData();
  }

  close(): void {
    this.#file?.close();
    this.#file = null;
  }
}
