/** @module What needs a blob, as far as the home's database and the documents and manifests that it names say so. */

import { type Cas, type Cid, isCid, isDrisl, isLink, objectName, readEntries } from "../cas/mod.ts";
import { isError } from "../home/mod.ts";
import { openSqlite } from "../store/mod.ts";
import { namingRows } from "./cas_named.ts";

/** A document that names blobs is read up to this size. */
const MAX_DOCUMENT = 4 * 1024 * 1024;

const CIDS = /baf[ky]r4i[a-z2-7]{52}/g;

/** Who needs some blobs: `evaluation 7`, say, or `evaluation 7 (data/train.csv)`. */
export class Needs {
  readonly #by: ReadonlyMap<string, Set<string>>;

  /** Of `wanted`; of others nothing is remembered, since a tree may have very many. */
  constructor(wanted: readonly Cid[]) {
    this.#by = new Map(wanted.map((cid) => [objectName(cid), new Set()]));
  }

  /** What needs `cid`. */
  of(cid: Cid): string[] {
    return [...this.#by.get(objectName(cid)) ?? []];
  }

  add(cid: Cid, what: string): void {
    this.#by.get(objectName(cid))?.add(what);
  }
}

/**
 * What in the database at `path` needs `wanted`, directly, or through a job's document or a manifest in `cas`. Empty
 * when there is no database: the store is not that of a server.
 */
export async function findNeeds(path: string, cas: Cas, wanted: readonly Cid[]): Promise<Needs> {
  const needs = new Needs(wanted);
  if (!await Deno.stat(path).then((info) => info.isFile, () => false)) return needs;
  await using db = await openSqlite(path, { migrations: false });
  const named = new Map<Cid, string>();
  await db.read(async (tx) => {
    for await (const { what, row, cids } of namingRows(tx)) {
      for (const cid of cids) {
        needs.add(cid, what);
        if (isDrisl(cid) || row["job_cid"] === cid) named.set(cid, what);
      }
    }
  });
  for (const [cid, what] of named) await follow(cas, cid, what, needs);
  return needs;
}

/** What `cid`, a manifest or a job's document, names in turn. One that cannot be read names nothing. */
async function follow(cas: Cas, cid: Cid, what: string, needs: Needs): Promise<void> {
  try {
    if (isDrisl(cid)) {
      for await (const entry of readEntries(cas, cid)) {
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
