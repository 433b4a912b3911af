/** @module Bringing a database's schema up to date: numbered SQL files, forward only, each applied once. */

import { createHash } from "node:crypto";
import { SubletError } from "../home/mod.ts";
import type { Connection } from "./connection.ts";

/** The migrations, in order. To add one: put the file beside the others, and its name at the end of this list. */
const FILES: readonly string[] = [
  "0001_base.sql",
  "0002_leases.sql",
  "0003_evaluations.sql",
  "0004_limits.sql",
  "0005_job_timeout.sql",
  "0006_worker_standing.sql",
  "0007_evaluation_dedup.sql",
  "0008_agents.sql",
  "0009_lease_faults.sql",
  "0010_secrets.sql",
  "0011_worker_timing.sql",
  "0012_agent_usage.sql",
];

/** One migration: its number counts from 1. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

let loaded: Promise<Migration[]> | null = null;

/** The migrations of this build. They are read from beside this module, which in a compiled file is inside it. */
export function migrations(): Promise<Migration[]> {
  return loaded ??= Promise.all(FILES.map(async (name, index) => ({
    version: index + 1,
    name,
    sql: await Deno.readTextFile(new URL(`./migrations/${name}`, import.meta.url)),
  })));
}

function checksumOf(sql: string): string {
  return createHash("sha256").update(sql).digest("hex");
}

/**
 * Apply those of `list` that the database lacks, each in a transaction of its own. Throws `unavailable` when the
 * database is newer than this build, or when a migration that it has was another text.
 */
export function migrate(connection: Connection, path: string, list: readonly Migration[]): void {
  connection.exec(
    `CREATE TABLE IF NOT EXISTS schema_migrations (
       version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at TEXT NOT NULL
     ) STRICT`,
  );
  checkApplied(connection, path, list);
  for (const migration of list) {
    if (isApplied(connection, migration)) continue;
    connection.exec("BEGIN IMMEDIATE");
    try {
      // Another process may have been first while this one waited for the lock.
      if (!isApplied(connection, migration)) apply(connection, migration);
      connection.exec("COMMIT");
    } catch (error) {
      if (connection.inTransaction) connection.exec("ROLLBACK");
      throw error;
    }
  }
}

function isApplied(connection: Connection, { version }: Migration): boolean {
  return connection.get("SELECT 1 AS one FROM schema_migrations WHERE version = ?", [version]) !==
    null;
}

function apply(connection: Connection, { version, name, sql }: Migration): void {
  connection.exec(sql);
  connection.run(
    `INSERT INTO schema_migrations (version, name, checksum, applied_at)
     VALUES (?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))`,
    [version, name, checksumOf(sql)],
  );
}

function checkApplied(connection: Connection, path: string, list: readonly Migration[]): void {
  const rows = connection.all(
    "SELECT version, name, checksum FROM schema_migrations ORDER BY version",
    [],
  );
  for (const { version, name, checksum } of rows) {
    const ours = list.find((migration) => migration.version === version);
    if (ours === undefined) {
      throw new SubletError(
        "unavailable",
        `the database ${path} has schema ${version} (${name}), and this sublet knows schemas up to ` +
          `${list.length}: a newer sublet made it. Use that one, or point SUBLET_HOME elsewhere`,
      );
    }
    if (ours.name !== name || checksumOf(ours.sql) !== checksum) {
      throw new SubletError(
        "unavailable",
        `the database ${path} was made with another text of the migration ${name}: a different build ` +
          `of sublet made it. Use that build, or point SUBLET_HOME elsewhere`,
      );
    }
  }
}
