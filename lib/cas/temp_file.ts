/** @module A file under way: it gets its name when it is whole and on the disk, or it is gone. */

import { fileError } from "./files.ts";
import type { FrameTarget } from "./frame_writer.ts";

/** A temporary file that is removed when it is disposed, unless it was published. */
export class TempFile implements FrameTarget, AsyncDisposable {
  #open = true;
  #there = true;

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

  /** Write `bytes`, in the calling thread. */
  appendSync(bytes: Uint8Array): void {
    try {
      for (let at = 0; at < bytes.length;) at += this.file.writeSync(bytes.subarray(at));
    } catch (error) {
      throw fileError(error, `cannot write ${this.path}`, "unavailable");
    }
  }

  async append(bytes: Uint8Array): Promise<void> {
    try {
      for (let at = 0; at < bytes.length;) at += await this.file.write(bytes.subarray(at));
    } catch (error) {
      throw fileError(error, `cannot write ${this.path}`, "unavailable");
    }
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
      Deno.renameSync(this.path, path);
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
    this.#close();
    if (this.#there) await Deno.remove(this.path).catch(() => {});
  }
}
