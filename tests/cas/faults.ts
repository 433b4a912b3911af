/** @module Makes the n-th operation on files or statements of a database fail, as a disk does that breaks or is full. */

import { StatementSync } from "node:sqlite";

/** What an injected failure says. */
export const INJECTED = "injected: input/output error (os error 5)";

type Method = (this: unknown, ...args: unknown[]) => unknown;
type Patched = Record<string, Method>;

const FUNCTIONS = [
  "chmod",
  "copyFile",
  "link",
  "linkSync",
  "lstat",
  "lstatSync",
  "makeTempFile",
  "mkdir",
  "mkdirSync",
  "open",
  "openSync",
  "readDir",
  "readDirSync",
  "readFile",
  "readFileSync",
  "readTextFile",
  "remove",
  "removeSync",
  "rename",
  "renameSync",
  "stat",
  "statSync",
  "truncate",
  "utime",
  "utimeSync",
  "writeFile",
  "writeFileSync",
  "writeTextFile",
];

const METHODS = [
  "read",
  "readSync",
  "seek",
  "seekSync",
  "stat",
  "statSync",
  "sync",
  "syncSync",
  "syncData",
  "syncDataSync",
  "truncate",
  "truncateSync",
  "utime",
  "utimeSync",
  "write",
  "writeSync",
];

const STATEMENTS = ["all", "get", "run"];

/** How operations fail from a number on: that one alone, or it and all that follow, as after a crash. */
export type Way = "once" | "from then on";

/** Operations, counted. Disposing it leaves everything as it was. */
export class Faults implements Disposable {
  /** Operations since it was made. */
  count = 0;
  /** The operation that failed first. */
  failed: string | null = null;
  readonly #at: number;
  readonly #way: Way;
  /** Whether the transaction that began last writes. */
  #writes = false;
  readonly #undo: (() => void)[] = [];

  /** Let the operation number `at`, counted from 1, fail. */
  constructor(at: number, way: Way) {
    this.#at = at;
    this.#way = way;
    this.#patch(Deno as unknown as Patched, FUNCTIONS, "");
    this.#patch(Deno.FsFile.prototype as unknown as Patched, METHODS, "FsFile.");
    this.#patch(StatementSync.prototype as unknown as Patched, STATEMENTS, "statement ");
  }

  #patch(target: Patched, names: readonly string[], prefix: string): void {
    for (const name of names) {
      const before = target[name];
      if (before === undefined) continue;
      const ofStatement = target === StatementSync.prototype as unknown;
      const check = (that: unknown) => {
        if (ofStatement && this.#cannotFail((that as StatementSync).sourceSQL)) return null;
        return this.#check(`${prefix}${name}`);
      };
      const isAsync = !ofStatement && !name.endsWith("Sync") && name !== "readDir";
      target[name] = function (...args) {
        const error = check(this);
        if (error === null) return before.apply(this, args);
        if (isAsync) return Promise.reject(error);
        throw error;
      };
      this.#undo.push(() => target[name] = before);
    }
  }

  /** Whether SQLite does `sql` without the disk: to give up a transaction, or to end one that only read. */
  #cannotFail(sql: string): boolean {
    if (sql.startsWith("BEGIN")) this.#writes = sql.includes("IMMEDIATE");
    return sql.startsWith("ROLLBACK") || sql === "COMMIT" && !this.#writes;
  }

  #check(name: string): Error | null {
    this.count++;
    const fails = this.#way === "once" ? this.count === this.#at : this.count >= this.#at;
    if (!fails) return null;
    this.failed ??= name;
    // What SQLite says then, so that it is told as what it is.
    return new Error(name.startsWith("statement") ? "disk I/O error" : INJECTED);
  }

  [Symbol.dispose](): void {
    for (const undo of this.#undo.splice(0)) undo();
  }
}
