/** @module The linked inputs of a campaign: what git ignores in its checkout and every job gets, in the CAS. */

import { type Cas, type Cid, type Entry, putManifest, type Seen, storeTree } from "../cas/mod.ts";
import { messageOf, SubletError } from "../home/mod.ts";

/**
 * Put the trees at `links` in the checkout at `root` into `cas`, as they are now: each path to its manifest, whose paths
 * start with that path, since a job's checkout gets them all at its root. Paths that are not there are left out. Files in
 * `seen` that did not change are not read again. Equal trees have equal addresses.
 */
export async function storeLinks(
  cas: Cas,
  root: string,
  links: readonly string[],
  seen: Seen,
): Promise<Record<string, Cid>> {
  const stored: Record<string, Cid> = {};
  for (const link of [...links].sort()) {
    const info = await statOf(`${root}/${link}`);
    if (info === null) continue;
    stored[link] = info.isDirectory
      ? (await storeTree(cas, `${root}/${link}`, { seen, prefix: link })).manifest
      : await putManifest(cas, [await fileEntry(cas, root, link, info)]);
  }
  return stored;
}

async function fileEntry(
  cas: Cas,
  root: string,
  link: string,
  info: Deno.FileInfo,
): Promise<Entry> {
  const path = await Deno.realPath(`${root}/${link}`);
  const blob = await cas.putFile(path);
  const after = await statOf(path);
  if (after?.size !== info.size || after.mtime?.getTime() !== info.mtime?.getTime()) {
    throw new SubletError("conflict", `${path} changed while it was read. Try again`);
  }
  return { path: link, mode: (info.mode ?? 0o644) & 0o7777, size: info.size, blob };
}

/** What is at `path`, through links. Null: nothing. */
async function statOf(path: string): Promise<Deno.FileInfo | null> {
  try {
    return await Deno.stat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw new SubletError("failed", `the link ${path} cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
