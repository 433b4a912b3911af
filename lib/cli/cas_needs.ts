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
import { openSqlite } from "../store/mod.ts";
import { namingRows } from "./cas_named.ts";

/** A document that names blobs is read up to this size. */
const MAX_DOCUMENT = 4 * 1024 * 1024;

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
