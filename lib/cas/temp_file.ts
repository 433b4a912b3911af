/** @module A file under way: it gets its name when it is whole and on the disk, or it is gone. */

import { fileError } from "./files.ts";
import type { FrameTarget } from "./frame_writer.ts";

/** After so many bytes the disk is made to write them. */
const SYNC_EVERY = 16 * 1024 * 1024;

/** A temporary file that is removed when it is disposed, unless it was published. */
export class TempFile implements FrameTarget, AsyncDisposable {
  #open = true;
  #there = true;
  /** Bytes that no sync has been started for. */
  #unsynced = 0;
  #syncing: Promise<void> | null = null;

  private constructor(readonly path: string, readonly file: Deno.FsFile) {}

  /** A new file in `directory`. It is made in the calling thread: that takes microseconds, a detour more. */
  static create(directory: string): TempFile {
    const path = `${directory}/${crypto.randomUUID()}`;
    try {
      return new TempFile(path, Deno.openSync(path, { write: true, createNew: true, mode: 0o644 }));
    } catch (error) {
      throw fileError(error, `cannot write ${path}`, "unavailable");
    }
  }

  /** The file at `path`, which is whole already. It stays there when it is not published. */
  static adopt(path: string): TempFile {
    try {
      const adopted = new TempFile(path, Deno.openSync(path, { write: true }));
      adopted.#there = false;
      return adopted;
    } catch (error) {
      throw fileError(error, `cannot write ${path}`, "unavailable");
    }
  }

  /** Write `bytes`, in the calling thread. */
  appendSync(bytes: Uint8Array): void {
    try {
      for (let at = 0; at < bytes.length;) at += this.file.writeSync(bytes.subarray(at));
    } catch (error) {
      throw fileError(error, `cannot write ${this.path}`, "unavailable");
    }
  }

  /** Write `bytes` at `at`, in the calling thread. */
  writeAt(bytes: Uint8Array, at: number): void {
    try {
      this.file.seekSync(at, Deno.SeekMode.Start);
    } catch (error) {
      throw fileError(error, `cannot write ${this.path}`, "unavailable");
    }
    this.appendSync(bytes);
  }

  async append(bytes: Uint8Array): Promise<void> {
    try {
      for (let at = 0; at < bytes.length;) at += await this.file.write(bytes.subarray(at));
    } catch (error) {
      throw fileError(error, `cannot write ${this.path}`, "unavailable");
    }
    this.wrote(bytes.length);
  }

  /** `count` more bytes were written to it. */
  wrote(count: number): void {
    this.#unsynced += count;
    if (this.#unsynced >= SYNC_EVERY && this.#syncing === null) {
      this.#unsynced = 0;
      this.#syncing = this.#syncAhead();
    }
  }

  /** Get what was written so far to the disk while more comes, so that there is less to wait for at the end. */
  async #syncAhead(): Promise<void> {
    try {
      // Through a handle of its own: those of one handle wait for each other.
      using file = await Deno.open(this.path);
      await file.syncData();
    } catch {
      // It was only an attempt: the sync at the end tells.
    }
    this.#syncing = null;
  }

  async overwrite(bytes: Uint8Array, at: number): Promise<void> {
    try {
      await this.file.seek(at, Deno.SeekMode.Start);
    } catch (error) {
      throw fileError(error, `cannot write ${this.path}`, "unavailable");
    }
    await this.append(bytes);
  }

  /**
   * Let it seem a second older than it is; its status then. Times of files are coarse, and a change right after this
   * moment would not show in them otherwise.
   */
  backdate(): Deno.FileInfo {
    try {
      const now = Date.now() / 1000;
      this.file.utimeSync(now, now - 1);
      return this.file.statSync();
    } catch (error) {
      throw fileError(error, `cannot write ${this.path}`, "unavailable");
    }
  }

  /** Wait until its bytes are on the disk, and give it the name `path`, in place of whatever has it. */
  async publish(path: string): Promise<void> {
    try {
      await this.file.sync();
      this.#close();
      renameOver(this.path, path);
      this.#there = false;
    } catch (error) {
      throw fileError(error, `cannot store ${path}`, "unavailable");
    }
  }

  /** Give it the name `path`. Who does so has its bytes on the disk in another way. */
  place(path: string): void {
    try {
      this.#close();
      renameOver(this.path, path);
      this.#there = false;
    } catch (error) {
      throw fileError(error, `cannot store ${path}`, "unavailable");
    }
  }

  #close(): void {
    if (this.#open) this.file.close();
    this.#open = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#syncing;
    this.#close();
    if (this.#there) await Deno.remove(this.path).catch(() => {});
  }
}

/** Rename a file, also to where a directory is, which no object of a store may be. */
function renameOver(from: string, to: string): void {
  try {
    Deno.renameSync(from, to);
  } catch (error) {
    if (!(error instanceof Deno.errors.IsADirectory)) throw error;
    Deno.removeSync(to, { recursive: true });
    Deno.renameSync(from, to);
  }
}
