/** @module Tokens: who may call the server. Only the hash of a secret is kept. */

import { createHash, randomBytes } from "node:crypto";
import { type Clock, POOL_NAME, SubletError } from "../home/mod.ts";
import { type Db, isTaken, type Row, type Tx } from "../store/mod.ts";
import type { Access, Caller } from "./contract.ts";

/** Names of callers: they appear in paths, tables and logs. */
export const CALLER_NAME = /^[A-Za-z0-9._-]{1,64}$/;
/** Callers that are not tokens: the server's own worker, and whoever dials the Unix socket. */
const RESERVED: ReadonlySet<string> = new Set(["serve", "owner"]);

/** How long another process's change of the tokens may go unnoticed, milliseconds. An unknown token is looked up at once. */
const NOTICE_MS = 50;

/** What a token is made with. */
export interface TokenOptions {
  readonly access: Access;
  /** The only pool that a worker with it may join. Null or absent: any. */
  readonly pool?: string | null;
  /** Milliseconds since 1970 at which it ends. Null or absent: never. */
  readonly expiresAt?: number | null;
}

/** A token, without its secret. Times are milliseconds since 1970. */
export interface TokenInfo {
  readonly name: string;
  readonly access: Access;
  readonly pool: string | null;
  readonly createdAt: number;
  readonly expiresAt: number | null;
}

interface Known {
  readonly caller: Caller;
  readonly expiresAt: number | null;
  /** Whether it counts on the Unix socket alone. */
  readonly unixOnly: boolean;
}

interface TokenRow extends Row {
  name: string;
  access: string;
  pool: string | null;
  sha256: string;
  created_at: number;
  expires_at: number | null;
}

const ACCESS: readonly Access[] = ["read", "act", "admin", "worker"];

function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

function newSecret(): string {
  return `slt_${randomBytes(32).toString("base64url")}`;
}

/** The tokens of a home, in its database, with a copy in memory that verification reads. */
export class Tokens {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #internal = new Map<string, Known>();
  #known: ReadonlyMap<string, Known> = new Map();
  /** Good secrets that were brought since the tokens were last read: at most as many as there are tokens. */
  readonly #seen = new Map<string, Known>();
  /** What {@linkcode #known} was read at: the database's version, and the count of our own changes. */
  #readAt: { version: number; changes: number } | null = null;
  #changes = 0;
  #checkedAt = -Infinity;
  #reading: Promise<void> | null = null;

  constructor(db: Db, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /**
   * Make a token and return its secret, which is not to be had again. Throws `conflict` for a name that is taken, and
   * `invalid_request` for a name, a pool or a time that cannot be.
   */
  async create(name: string, options: TokenOptions): Promise<string> {
    const { access, pool = null, expiresAt = null } = options;
    const now = this.#clock.now();
    check(name, access, pool, expiresAt, now);
    const secret = newSecret();
    await this.#change(async (tx) => {
      await tx.run(
        `INSERT INTO tokens (name, access, pool, sha256, created_at, expires_at)
         VALUES (?, ?, ?, ?, ?, ?)`,
        [name, access, pool, hashOf(secret), Math.floor(now), expiresAt],
      );
    }).catch((error) => {
      if (!isTaken(error)) throw error;
      throw new SubletError(
        "conflict",
        `there is a token ${name} already: take another name, or \`sublet token revoke ${name}\` first`,
      );
    });
    return secret;
  }

  /** Every token, by name. */
  async list(): Promise<TokenInfo[]> {
    const rows = await this.#db.read((tx) =>
      tx.all<TokenRow>("SELECT * FROM tokens ORDER BY name", [])
    );
    return rows.map((row) => ({
      name: row.name,
      access: accessOf(row.access),
      pool: row.pool,
      createdAt: row.created_at,
      expiresAt: row.expires_at,
    }));
  }

  /** Revoke a token: its next call is refused. Throws `not_found`. */
  async revoke(name: string): Promise<void> {
    const gone = await this.#change((tx) => tx.run("DELETE FROM tokens WHERE name = ?", [name]));
    if (gone === 0) {
      throw new SubletError("not_found", `there is no token ${name}: see \`sublet token list\``);
    }
  }

  /** A secret that lives in this process only and counts on the Unix socket only, for the server's own worker. */
  grantInternal(name: "serve", access: "worker"): string {
    const secret = newSecret();
    const caller = { name, access, pool: null };
    this.#internal.set(hashOf(secret), { caller, expiresAt: null, unixOnly: true });
    return secret;
  }

  /** Whose token `secret` is, or null when it is unknown, revoked, expired, or not for this listener. */
  async verify(secret: string, peer: { readonly unix: boolean }): Promise<Caller | null> {
    if (this.#isOld()) await this.#refresh();
    const known = this.#seen.get(secret) ?? await this.#lookUp(secret);
    if (known === undefined || (known.unixOnly && !peer.unix)) return null;
    if (known.expiresAt !== null && known.expiresAt <= this.#clock.now()) return null;
    return known.caller;
  }

  /** Whose token `secret` is, when it was verified before and nothing has changed since; else null, which says nothing. */
  known(secret: string, peer: { readonly unix: boolean }): Caller | null {
    const known = this.#seen.get(secret);
    if (known === undefined || this.#isOld() || (known.unixOnly && !peer.unix)) return null;
    if (known.expiresAt !== null && known.expiresAt <= this.#clock.now()) return null;
    return known.caller;
  }

  /** By hash, which costs more than all the rest of a verification: so what was found is remembered. */
  async #lookUp(secret: string): Promise<Known | undefined> {
    const hash = hashOf(secret);
    let known = this.#internal.get(hash) ?? this.#known.get(hash);
    if (known === undefined && this.#changedElsewhere()) {
      await this.#refresh();
      known = this.#known.get(hash);
    }
    if (known !== undefined) this.#seen.set(secret, known);
    return known;
  }

  #isOld(): boolean {
    if (this.#readAt === null || this.#readAt.changes !== this.#changes) return true;
    const now = this.#clock.monotonic();
    if (now - this.#checkedAt < NOTICE_MS) return false;
    if (this.#changedElsewhere()) return true;
    this.#checkedAt = now;
    return false;
  }

  #changedElsewhere(): boolean {
    return this.#readAt?.version !== this.#db.dataVersion();
  }

  #refresh(): Promise<void> {
    return this.#reading ??= this.#read().finally(() => this.#reading = null);
  }

  async #read(): Promise<void> {
    // Taken before the rows, so that a change meanwhile leads to another reading.
    const readAt = { version: this.#db.dataVersion(), changes: this.#changes };
    const rows = await this.#db.read((tx) => tx.all<TokenRow>("SELECT * FROM tokens", []));
    this.#known = new Map(rows.map((row) => [row.sha256, {
      caller: { name: row.name, access: accessOf(row.access), pool: row.pool },
      expiresAt: row.expires_at,
      unixOnly: false,
    }]));
    this.#seen.clear();
    this.#readAt = readAt;
  }

  #change<T>(body: (tx: Tx) => Promise<T>): Promise<T> {
    return this.#db.write((tx) => {
      tx.onCommit(() => this.#changes++);
      return body(tx);
    });
  }
}

function accessOf(text: string): Access {
  const access = ACCESS.find((one) => one === text);
  if (access === undefined) throw new SubletError("internal", `a token has the access '${text}'`);
  return access;
}

function check(
  name: string,
  access: Access,
  pool: string | null,
  expiresAt: number | null,
  now: number,
): void {
  const refuse = (text: string) => {
    throw new SubletError("invalid_request", text);
  };
  if (!CALLER_NAME.test(name) || /^\.+$/.test(name)) {
    refuse(`'${name}' is no name of a token: use 1 to 64 letters, digits, '.', '_' and '-'`);
  }
  if (RESERVED.has(name)) refuse(`'${name}' is reserved: take another name`);
  if (!ACCESS.includes(access)) refuse(`'${access}' is no access: one of ${ACCESS.join(", ")}`);
  if (pool !== null && access !== "worker") refuse("only a token of access worker has a pool");
  if (pool !== null && !POOL_NAME.test(pool)) refuse(`'${pool}' is no name of a pool`);
  if (expiresAt !== null && !(Number.isSafeInteger(expiresAt) && expiresAt > now)) {
    refuse("a token must expire in the future");
  }
}
