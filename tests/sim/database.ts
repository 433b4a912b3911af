/** @module The server's database: SQLite in memory, which outlives the server's processes, and fails like a disk. */

import { SubletError } from "../../lib/home/mod.ts";
import {
  type Db,
  openSqlite,
  type Row,
  type Tx,
  type Value,
  type WriteOptions,
} from "../../lib/store/mod.ts";
import {
  type ChangeRow,
  type Changes,
  changesOf,
  feedSchema,
  FORGET_CHANGES,
  LISTS,
  READ_CHANGES,
  readAll,
} from "./feed.ts";
import type { Process } from "./machine.ts";
import type { Random } from "./random.ts";
import type { World } from "./world.ts";

/** Chances, for each transaction. */
export interface DiskFaults {
  /** The server dies between two statements. */
  crash: number;
  /** The server dies once the transaction is durable and before anybody is told. */
  crashAfterCommit: number;
  /** One statement fails. */
  failing: number;
  /** A failure undoes everything that was to be committed with it, as a full disk does. */
  undone: number;
  /** Another process holds the database for longer than anybody waits for it: SQLITE_BUSY. */
  busy: number;
}

export const SOUND: DiskFaults = { crash: 0, crashAfterCommit: 0, failing: 0, undone: 0, busy: 0 };
/** How long SQLite waits for another process before it says so (milliseconds). */
const BUSY_MS = 5_000;

/** All that the database held at some moment. */
export interface Backup {
  readonly at: number;
  readonly tables: ReadonlyMap<string, Row[]>;
}

/** The disk. */
export class Disk implements AsyncDisposable {
  faults: DiskFaults = { ...SOUND };
  /** Every write fails while this is set. */
  full = false;
  /** Chance that a transaction takes a while; those after it wait for it. */
  slow = 0.1;

  private constructor(
    readonly world: World,
    readonly random: Random,
    readonly db: Db,
    /** Gets every transaction's changes once they are durable. */
    readonly onChanges: (changes: Changes) => void,
  ) {}

  static async open(
    world: World,
    random: Random,
    onChanges: (changes: Changes) => void,
  ): Promise<Disk> {
    const db = await openSqlite(":memory:");
    await db.write(async (tx) => {
      for (const sql of feedSchema()) await tx.run(sql);
    });
    return new Disk(world, random, db, onChanges);
  }

  /** The database, as `process` has it open. */
  connect(process: Process): Db {
    return new SimDb(this, process);
  }

  async backup(): Promise<Backup> {
    const tables = new Map<string, Row[]>();
    await this.db.read(async (tx) => {
      for (const table of await tablesOf(tx)) {
        tables.set(table, await tx.all(`SELECT * FROM ${table}`));
      }
    });
    return { at: this.world.now, tables };
  }

  async restore(backup: Backup): Promise<void> {
    await this.db.write(async (tx) => {
      await tx.run("PRAGMA defer_foreign_keys = ON");
      for (const table of await tablesOf(tx)) await tx.run(`DELETE FROM ${table}`);
      for (const [table, rows] of backup.tables) {
        for (const row of rows) {
          const columns = Object.keys(row);
          await tx.run(
            `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?")})`,
            Object.values(row),
          );
        }
      }
      // The ids that were given out since are given out again, as they would be from a file of then.
      await tx.run("DELETE FROM sqlite_sequence");
      for (const row of backup.tables.get("sqlite_sequence") ?? []) {
        await tx.run("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", [
          row.name ?? null,
          row.seq ?? null,
        ]);
      }
      await tx.run(FORGET_CHANGES);
    });
  }

  /** Everything that is there, as changes from nothing. */
  async everything(): Promise<Changes> {
    return await this.db.read(async (tx) => {
      const rows: ChangeRow[] = [];
      for (const list of LISTS) rows.push(...await tx.all<ChangeRow>(readAll(list)));
      return changesOf(rows);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.db[Symbol.asyncDispose]();
  }
}

async function tablesOf(tx: Tx): Promise<string[]> {
  const rows = await tx.all<Row & { name: string }>(
    `SELECT name FROM sqlite_master WHERE type = 'table'
       AND name NOT IN ('schema_migrations', 'sim_changes', 'sim_undo') ORDER BY name`,
  );
  return rows.map(({ name }) => name);
}

/** What goes wrong in one transaction: at its statement number `at`; 0: at its commit. */
interface Plan {
  readonly at: number;
  readonly how: "crash" | "failing" | "undone";
}

class SimDb implements Db {
  readonly #disk: Disk;
  readonly #process: Process;
  /** World time at which what was asked for so far has begun. */
  #free = 0;

  constructor(disk: Disk, process: Process) {
    this.#disk = disk;
    this.#process = process;
  }

  write<T>(body: (tx: Tx) => Promise<T>, options?: WriteOptions): Promise<T> {
    const { random, faults, world } = this.#disk;
    if (faults.busy > 0 && random.chance(faults.busy)) {
      // It waits where it stands, and everybody with it.
      this.#free = Math.max(this.#free, world.now) + BUSY_MS;
      return this.#run(() => Promise.reject(busy(world)));
    }
    const plan = this.#plan();
    return this.#run(() =>
      this.#disk.db.write(async (inner) => {
        this.#checkAlive();
        const tx = new SimTx(inner, this.#process, this.#disk.world, plan);
        let changes: Changes | null = null;
        inner.onCommit(() => {
          if (changes !== null) this.#disk.onChanges(changes);
          const { random, faults } = this.#disk;
          if (random.chance(faults.crashAfterCommit)) this.#process.die("after a commit");
        });
        const value = await body(tx);
        await tx.end();
        const rows = await inner.all<ChangeRow>(READ_CHANGES);
        if (rows.length > 0) {
          changes = changesOf(rows);
          await inner.run(FORGET_CHANGES);
        }
        return value;
      }, options)
    );
  }

  read<T>(body: (tx: Tx) => Promise<T>): Promise<T> {
    return this.#run(() =>
      this.#disk.db.read((inner) => {
        this.#checkAlive();
        return body(new SimTx(inner, this.#process, this.#disk.world, null));
      })
    );
  }

  dataVersion(): number {
    return this.#disk.db.dataVersion();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve();
  }

  #checkAlive(): void {
    if (!this.#process.alive) throw new SubletError("unavailable", "this process is dead");
  }

  #plan(): Plan | null {
    const { random, faults, full } = this.#disk;
    const at = random.chance(0.3) ? 0 : random.int(1, 8);
    const roll = random.next();
    if (full) return { at: 1, how: roll < 0.5 ? "undone" : "failing" };
    if (roll < faults.crash) return { at, how: "crash" };
    if (roll < faults.crash + faults.failing) return { at, how: "failing" };
    if (roll < faults.crash + faults.failing + faults.undone) return { at, how: "undone" };
    return null;
  }

  #run<T>(call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (!this.#process.alive) return;
      const { world, random, slow } = this.#disk;
      const begin = () => {
        world.pending++;
        call().then((value) => {
          world.pending--;
          if (this.#process.alive) resolve(value);
        }, (error) => {
          world.pending--;
          if (this.#process.alive) reject(error);
        });
      };
      if (random.chance(slow)) this.#free = Math.max(this.#free, world.now) + random.between(1, 90);
      if (this.#free <= world.now) return begin();
      world.at(this.#free, () =>
        this.#process.machine.awake(() => {
          if (this.#process.alive) begin();
        }));
    });
  }
}

function busy(world: World): SubletError {
  world.note("disk: busy");
  return new SubletError("unavailable", "database is locked");
}

class SimTx implements Tx {
  #statements = 0;

  constructor(
    private readonly inner: Tx,
    private readonly process: Process,
    private readonly world: World,
    private readonly plan: Plan | null,
  ) {}

  async all<R extends Row = Row>(sql: string, params?: readonly Value[]): Promise<R[]> {
    await this.#fault();
    return await this.inner.all<R>(sql, params);
  }

  async get<R extends Row = Row>(sql: string, params?: readonly Value[]): Promise<R | null> {
    await this.#fault();
    return await this.inner.get<R>(sql, params);
  }

  async run(sql: string, params?: readonly Value[]): Promise<number> {
    await this.#fault();
    return await this.inner.run(sql, params);
  }

  onCommit(done: () => void): void {
    this.inner.onCommit(() => {
      if (this.process.alive) done();
    });
  }

  /** Its body is over. */
  async end(): Promise<void> {
    if (this.plan?.at === 0 && this.#statements > 0) await this.#fail(this.plan.how);
  }

  async #fault(): Promise<void> {
    this.#statements++;
    if (this.plan?.at === this.#statements) await this.#fail(this.plan.how);
  }

  async #fail(how: Plan["how"]): Promise<void> {
    this.world.note(`disk: ${how} at statement ${this.#statements}`);
    if (how !== "failing") {
      // The statement fails and takes the whole transaction with it, those of others included.
      await this.inner.run("INSERT OR ROLLBACK INTO sim_undo (id) VALUES (1)").catch(() => {});
    }
    if (how === "crash") this.process.die("between two statements");
    throw new SubletError("unavailable", "the disk is full");
  }
}
