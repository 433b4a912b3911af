/** @module What needs a blob, as far as the home's database and the documents and manifests that it names say so. */

import {
  type Cas,
  type Cid,
  isCid,
  isDrisl,
  isLink,
  objectName,
  readManifest,
} from "../cas/mod.ts";
import { isError } from "../home/mod.ts";
import { type Db, openSqlite, type Row } from "../store/mod.ts";

/** A document that names blobs is read up to this size. */
const MAX_DOCUMENT = 4 * 1024 * 1024;

/** Rows of one read. */
const PAGE = 500;

const CIDS = /baf[ky]r4i[a-z2-7]{52}/g;

/** Who needs a blob: `evaluation 7`, say, or `evaluation 7 (data/train.csv)`. */
export class Needs {
  readonly #by = new Map<string, Set<string>>();

  /** What needs `cid`. */
  of(cid: Cid): string[] {
    return [...this.#by.get(objectName(cid)) ?? []];
  }

  add(cid: Cid, what: string): void {
    const name = objectName(cid);
    const known = this.#by.get(name);
    if (known === undefined) this.#by.set(name, new Set([what]));
    else known.add(what);
  }
}

/**
 * What the database at `path` needs, directly, or through a job's document or a manifest in `cas`. Empty when there is
 * no database: the store is not that of a server.
 */
export async function findNeeds(path: string, cas: Cas): Promise<Needs> {
  const needs = new Needs();
  if (!await Deno.stat(path).then((info) => info.isFile, () => false)) return needs;
  await using db = await openSqlite(path, { migrations: false });
  const named = new Map<Cid, string>();
  for (const table of await tables(db)) {
    for await (const row of rows(db, table)) {
      const what = label(table, row);
      for (const cid of cidsIn(row)) {
        needs.add(cid, what);
        if (isDrisl(cid) || row["job_cid"] === cid) named.set(cid, what);
      }
    }
  }
  for (const [cid, what] of named) await follow(cas, cid, what, needs);
  return needs;
}

interface Table {
  readonly name: string;
  readonly keys: readonly string[];
  readonly texts: readonly string[];
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** The tables that have text, which may name blobs. */
async function tables(db: Db): Promise<Table[]> {
  return await db.read(async (tx) => {
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
      if (texts.length > 0 && keys.length > 0) found.push({ name, keys, texts });
    }
    return found;
  });
}

/** The rows of `table` that name a blob. */
async function* rows(db: Db, { name, keys, texts }: Table): AsyncGenerator<Row> {
  const columns = [...new Set([...keys, ...texts])].map(quoted).join(", ");
  const named = texts.map((text) => `${quoted(text)} LIKE '%r4i%'`).join(" OR ");
  const order = keys.map(quoted).join(", ");
  const places = keys.map(() => "?").join(", ");
  for (let last: Row | null = null;;) {
    const after: string = last === null ? "" : `(${order}) > (${places}) AND`;
    const from = keys.map((key) => last?.[key] ?? null);
    const sql = `SELECT ${columns} FROM ${
      quoted(name)
    } WHERE ${after} (${named}) ORDER BY ${order}`;
    const page: Row[] = await db.read((tx) =>
      tx.all(`${sql} LIMIT ?`, [...(last === null ? [] : from), PAGE])
    );
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

function cidsIn(row: Row): Set<Cid> {
  const found = new Set<Cid>();
  for (const value of Object.values(row)) {
    if (typeof value !== "string") continue;
    for (const [text] of value.matchAll(CIDS)) if (isCid(text)) found.add(text);
  }
  return found;
}

/** What `cid`, a manifest or a job's document, names in turn. One that cannot be read names nothing. */
async function follow(cas: Cas, cid: Cid, what: string, needs: Needs): Promise<void> {
  try {
    if (isDrisl(cid)) {
      for (const entry of (await readManifest(cas, cid)).entries) {
        if (!isLink(entry)) needs.add(entry.blob, `${what} (${entry.path})`);
      }
      return;
    }
    const body = await cas.getStream(cid, { maxBytes: MAX_DOCUMENT });
    if (body === null) return;
    const text = await new Response(body.stream as ReadableStream<Uint8Array<ArrayBuffer>>).text();
    for (const [found] of text.matchAll(CIDS)) {
      if (isCid(found)) needs.add(found, what);
      if (isCid(found) && isDrisl(found)) await follow(cas, found, what, needs);
    }
  } catch (error) {
    if (!isError(error)) throw error;
  }
}
