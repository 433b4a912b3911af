/** @module The rows of a database that name blobs, whatever tables it has: an address is found in any text. */

import { type Cid, isCid } from "../cas/mod.ts";
import type { Row, Tx } from "../store/mod.ts";

/** Rows of one read. */
const PAGE = 500;

const CIDS = /baf[ky]r4i[a-z2-7]{52}/g;

/** A row that names blobs. */
export interface NamingRow {
  /** The row, as a person would call it: `evaluation 7`, say. */
  readonly what: string;
  readonly row: Row;
  readonly cids: ReadonlySet<Cid>;
}

/** A column that names no blob any more in rows whose column `ended` is before `after`. */
export interface ExpiringColumn {
  readonly table: string;
  readonly column: string;
  readonly ended: string;
  readonly after: number;
}

/** Every row that names a blob, as of the transaction. What has expired counts as empty. */
export async function* namingRows(
  tx: Tx,
  expiring: readonly ExpiringColumn[] = [],
): AsyncGenerator<NamingRow, void, undefined> {
  for (const table of await tables(tx)) {
    const rules = expiring.filter((rule) =>
      rule.table === table.name && table.all.includes(rule.ended)
    );
    for await (const row of rows(tx, table, rules.map(({ ended }) => ended))) {
      const over = rules.filter(({ ended, after }) => {
        const at = row[ended];
        return typeof at === "number" && at < after;
      });
      const cids = cidsIn(row, over.map(({ column }) => column));
      if (cids.size > 0) yield { what: label(table, row), row, cids };
    }
  }
}

interface Table {
  readonly name: string;
  readonly all: readonly string[];
  readonly keys: readonly string[];
  readonly texts: readonly string[];
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** The tables that have text, which may name blobs. */
async function tables(tx: Tx): Promise<Table[]> {
  const found: Table[] = [];
  for (
    const { name } of await tx.all<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    )
  ) {
    const columns = await tx.all<{ name: string; type: string; pk: number }>(
      "SELECT name, type, pk FROM pragma_table_info(?) ORDER BY pk",
      [name],
    );
    const texts = columns.filter(({ type }) => type === "TEXT").map((column) => column.name);
    const keys = columns.filter(({ pk }) => pk > 0).map((column) => column.name);
    // A table without a key has its row's number, which SQLite gives every table that is not made WITHOUT ROWID.
    const all = columns.map((column) => column.name);
    if (texts.length > 0) {
      found.push({ name, all, keys: keys.length > 0 ? keys : ["rowid"], texts });
    }
  }
  return found;
}

/** The rows of `table` that may name a blob. */
async function* rows(
  tx: Tx,
  { name, keys, texts }: Table,
  more: readonly string[],
): AsyncGenerator<Row> {
  const columns = [...new Set([...keys, ...texts, ...more])].map(quoted).join(", ");
  const named = texts.map((text) => `${quoted(text)} LIKE '%r4i%'`).join(" OR ");
  const order = keys.map(quoted).join(", ");
  const places = keys.map(() => "?").join(", ");
  for (let last: Row | null = null;;) {
    const after: string = last === null ? "" : `(${order}) > (${places}) AND`;
    const from = keys.map((key) => last?.[key] ?? null);
    const sql = `SELECT ${columns} FROM ${
      quoted(name)
    } WHERE ${after} (${named}) ORDER BY ${order}`;
    const page: Row[] = await tx.all(`${sql} LIMIT ?`, [...(last === null ? [] : from), PAGE]);
    yield* page;
    last = page.at(-1) ?? null;
    if (page.length < PAGE) return;
  }
}

/** A row, as a person would call it. */
function label({ name, keys }: Table, row: Row): string {
  const singular = name.replaceAll("_", " ").replace(/s$/, "");
  return `${singular} ${keys.map((column) => String(row[column])).join("/")}`;
}

/** The addresses in the texts of a row, but for those columns that are `over`. */
function cidsIn(row: Row, over: readonly string[]): Set<Cid> {
  const found = new Set<Cid>();
  for (const [column, value] of Object.entries(row)) {
    if (typeof value !== "string" || over.includes(column)) continue;
    for (const cid of cidsOf(value)) found.add(cid);
  }
  return found;
}

/** The addresses in a text. */
export function cidsOf(text: string): Cid[] {
  return [...text.matchAll(CIDS)].map(([cid]) => cid).filter(isCid);
}
