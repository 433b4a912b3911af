/** @module The files of one process's journal, one after another: see `disk_journal.ts`. */

import { JournalFile } from "./disk_journal.ts";
import { retire } from "./disk_replay.ts";
import { fileError } from "./files.ts";
import { syncDirectory } from "./sync_dir.ts";

/** A file has so many bytes of records at most, so that it is replayed in less than a second; the next one follows. */
const MAX_LOG = 16 * 1024 * 1024;
/** So many files may wait until the disk has their objects; then there is no journal for a while. */
const MAX_RETIRING = 3;
/** A file that was not used for so many milliseconds is retired. */
const IDLE_MS = 20_000;
/** After a failure there is none for so many milliseconds: the disk may have been full. */
const REFUSED_MS = 60_000;

interface Entry {
  readonly file: JournalFile;
  users: number;
  /** Nobody starts to use it any more. */
  full: boolean;
  retired: boolean;
}

/** The journal of one process for the store at a root. It makes nothing before it is first used. */
export class Journals implements AsyncDisposable {
  readonly #root: string;
  readonly #id = crypto.randomUUID();
  #lock: Disposable | null = null;
  #entry: Entry | null = null;
  #opening: Promise<void> | null = null;
  #count = 0;
  readonly #retiring = new Set<Promise<void>>();
  /** There is none before this moment. */
  #refusedUntil = -Infinity;
  #idle: ReturnType<typeof setTimeout> | undefined;

  constructor(root: string) {
    this.#root = root;
  }

  /**
   * Run `work` with a file that is not retired before it ends. False: there is none, or `work` could not use it, and
   * another way has to be found.
   */
  async use(work: (file: JournalFile) => Promise<void>): Promise<boolean> {
    const entry = await this.#usable();
    if (entry === null) return false;
    entry.users++;
    try {
      await work(entry.file);
      return true;
    } catch {
      // A file that could not be synced once proves nothing any more. What it has may still be needed after a crash.
      entry.full = true;
      this.#refuse();
      return false;
    } finally {
      entry.users--;
      if (entry.file.length >= MAX_LOG) entry.full = true;
      if (entry.full) this.#retire(entry);
      else this.#waitIdle(entry);
    }
  }

  async #usable(): Promise<Entry | null> {
    if (performance.now() < this.#refusedUntil || this.#retiring.size >= MAX_RETIRING) return null;
    if (this.#entry === null || this.#entry.full) {
      this.#opening ??= this.#open().finally(() => this.#opening = null);
      await this.#opening;
    }
    return this.#entry?.full === false ? this.#entry : null;
  }

  async #open(): Promise<void> {
    const directory = `${this.#root}/journal`;
    try {
      if (this.#lock === null) {
        await Deno.mkdir(directory, { recursive: true, mode: 0o755 });
        await syncDirectory(this.#root);
        const { ProcessLock } = await import("../store/mod.ts");
        this.#lock = ProcessLock.tryTake(`${directory}/${this.#id}.lock`);
      }
      if (this.#lock === null) throw new Error("its lock is taken");
      const file = await JournalFile.create(`${directory}/${this.#id}.${this.#count++}.log`);
      this.#entry = { file, users: 0, full: false, retired: false };
    } catch {
      // Without a journal each put syncs its own file.
      this.#refuse();
    }
  }

  #refuse(): void {
    this.#refusedUntil = performance.now() + REFUSED_MS;
  }

  #waitIdle(entry: Entry): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => {
      entry.full = true;
      this.#retire(entry);
    }, IDLE_MS);
    // A command that has ended does not wait for it.
    Deno.unrefTimer(this.#idle as unknown as number);
  }

  /** Remove `entry`, once nobody uses it and the disk has what is in it. */
  #retire(entry: Entry): void {
    if (entry.users > 0 || entry.retired) return;
    entry.retired = true;
    if (this.#entry === entry) this.#entry = null;
    entry.file.close();
    const done = retire(this.#root, entry.file.path, entry.file.count).catch(() => {
      // It stays, and is replayed by whoever opens the store next.
    }).finally(() => this.#retiring.delete(done));
    this.#retiring.add(done);
  }

  /** Retire what there is. Nobody may use it any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#idle);
    await this.#opening;
    if (this.#entry !== null) {
      this.#entry.full = true;
      this.#retire(this.#entry);
    }
    await Promise.all(this.#retiring);
    const path = `${this.#root}/journal/${this.#id}.lock`;
    if (this.#lock === null) return;
    if (!await this.#hasLogs()) {
      await Deno.remove(path).catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) {
          throw fileError(error, `cannot remove ${path}`, "unavailable");
        }
      });
    }
    this.#lock[Symbol.dispose]();
    this.#lock = null;
    this.#refusedUntil = Infinity;
  }

  async #hasLogs(): Promise<boolean> {
    for await (const { name } of Deno.readDir(`${this.#root}/journal`)) {
      if (name.startsWith(this.#id) && name.endsWith(".log")) return true;
    }
    return false;
  }
}
