/**
 * @module What operators set over the config while the server runs: kept in the database with who set it and why, and in
 * force at once and after every restart.
 */

import { liveDefault, type LiveKey, liveKey, liveKeys, liveValue } from "../home/config/mod.ts";
import { type Clock, isError, type Log, messageOf, SubletError } from "../home/mod.ts";
import type { Db, Row } from "../store/mod.ts";
import type { Pool } from "./gates.ts";
import { isoTime } from "./time.ts";

/** A limit that somebody set. */
export interface Limit {
  readonly value: number | null;
  readonly reason: string;
  readonly actor: string;
  /** ISO 8601 UTC. */
  readonly at: string;
}

/** A live key, and where its value is from. */
export interface LimitView {
  readonly key: string;
  /** What is in force; null: no bound. */
  readonly value: number | null;
  readonly source: "default" | "config" | "limit";
  /** What it is without the limit. */
  readonly configured: number | null;
  readonly limit: Limit | null;
}

/** A limit that is kept but not in force, because the config does not allow it any more. */
export interface RefusedLimit extends Limit {
  readonly key: string;
  readonly why: string;
}

/** What {@linkcode Limits} is made of. */
export interface LimitsOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** Capacity of each worker, by pool, as the config has it. */
  readonly pools: Readonly<Record<string, Pool>>;
  /** Put other capacities in force. */
  readonly apply: (pools: Readonly<Record<string, Pool>>) => void;
}

type LimitRow = Row & { key: string; value: string; reason: string; actor: string; at: number };

/** The limits of a server. Call {@linkcode Limits.load} before workers are let in. */
export class Limits {
  readonly #options: LimitsOptions;
  readonly #names: readonly string[];
  #set = new Map<string, Limit>();
  #refused: RefusedLimit[] = [];

  constructor(options: LimitsOptions) {
    this.#options = options;
    this.#names = Object.keys(options.pools);
  }

  /** Put in force what was set before. A limit that the config does not allow any more is passed over alone. */
  async load(): Promise<void> {
    const { db, log, clock } = this.#options;
    const rows = await db.read((tx) => tx.all<LimitRow>("SELECT * FROM limits ORDER BY key"));
    this.#set = new Map();
    this.#refused = [];
    for (const row of rows) {
      const limit = { reason: row.reason, actor: row.actor, at: isoTime(row.at) };
      const value = JSON.parse(row.value);
      try {
        const key = liveKey(row.key, this.#names);
        this.#set.set(key.key, { ...limit, value: liveValue(key, value) });
      } catch (error) {
        if (!isError(error, "not_found", "invalid_request")) throw error;
        const why = messageOf(error);
        this.#refused.push({ ...limit, key: row.key, value, why });
        log.event("limits.refused", { key: row.key, value, why, at: isoTime(clock.now()) });
      }
    }
    this.#apply();
  }

  /** Every live key, by pool. */
  list(): LimitView[] {
    return liveKeys(this.#names).map((key) => this.#view(key));
  }

  /** Limits that are kept and not in force. */
  refused(): readonly RefusedLimit[] {
    return this.#refused;
  }

  /**
   * Set a key, and put it in force. Throws `not_found` for a key that is not live, and `invalid_request` for a value
   * that the config's rule does not take.
   */
  async set(text: string, value: unknown, reason: string, actor: string): Promise<LimitView> {
    const key = liveKey(text, this.#names);
    const checked = liveValue(key, value);
    const { db, clock, log } = this.#options;
    const at = Math.floor(clock.now());
    const why = reason.replaceAll("\0", " ").trim();
    if (why === "") throw new SubletError("invalid_request", "say why the limit is set");
    await db.write(async (tx) => {
      await tx.run(
        `INSERT INTO limits (key, value, reason, actor, at) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (key) DO UPDATE SET
           value = excluded.value, reason = excluded.reason, actor = excluded.actor, at = excluded.at`,
        [key.key, JSON.stringify(checked), why, actor, at],
      );
      tx.onCommit(() => {
        this.#set.set(key.key, { value: checked, reason: why, actor, at: isoTime(at) });
        this.#apply();
      });
    });
    log.event("limits.set", { key: key.key, value: checked, reason: why, actor });
    return this.#view(key);
  }

  /** Go back to what the config says. Throws `not_found` when the key has no limit. */
  async unset(text: string, actor: string): Promise<void> {
    const { db, log } = this.#options;
    await db.write(async (tx) => {
      if (await tx.run("DELETE FROM limits WHERE key = ?", [text]) === 0) {
        throw new SubletError(
          "not_found",
          `no limit is set on ${text}: \`sublet limits\` lists them`,
        );
      }
      tx.onCommit(() => {
        this.#refused = this.#refused.filter(({ key }) => key !== text);
        if (this.#set.delete(text)) this.#apply();
      });
    });
    log.event("limits.unset", { key: text, actor });
  }

  #view(key: LiveKey): LimitView {
    const configured = this.#options.pools[key.pool]?.[key.field] ?? null;
    const limit = this.#set.get(key.key) ?? null;
    const given = configured === liveDefault(key.field) ? "default" : "config";
    return {
      key: key.key,
      value: limit === null ? configured : limit.value,
      source: limit === null ? given : "limit",
      configured,
      limit,
    };
  }

  #apply(): void {
    const pools: Record<string, Pool> = {};
    for (const [name, pool] of Object.entries(this.#options.pools)) {
      const over = liveKeys([name]).flatMap(({ key, field }) => {
        const limit = this.#set.get(key);
        return limit === undefined ? [] : [[field, limit.value]];
      });
      pools[name] = { ...pool, ...Object.fromEntries(over) };
    }
    this.#options.apply(pools);
  }
}
