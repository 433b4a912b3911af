/** @module Directories in and out of the store, for `sublet cas put` and `get`. */

import { type Cid, placeTree, StatIndex, storeTree } from "../cas/mod.ts";
import { isError, messageOf } from "../home/mod.ts";
import type { HomeCas } from "./home_cas.ts";
import { type Output, size } from "./output.ts";

/** Milliseconds between lines on stderr. */
const TELL_MS = 2_000;

/** Store the directory at `path`; the CID of its manifest. Files that are as they were stored before are not read. */
export async function putTree(home: HomeCas, path: string, output: Output): Promise<Cid> {
  await using seen = await openIndex(home, output);
  const tell = teller(output);
  let read = 0;
  const { manifest, files, bytes } = await storeTree(home.cas, path, {
    ...(seen === null ? {} : { seen }),
    tmp: home.tmp,
    progress(files, bytes, known) {
      read = files - known;
      tell(files, bytes);
    },
  });
  output.note(`${path}: ${files} files, ${size(bytes)}, ${read} of them new or changed`);
  return manifest;
}

/** The index, or null when it cannot be used: then every file is read. */
async function openIndex(home: HomeCas, output: Output): Promise<StatIndex | null> {
  try {
    return await StatIndex.open(home.seen);
  } catch (error) {
    if (!isError(error)) throw error;
    output.note(`every file is read: ${messageOf(error)}`);
    return null;
  }
}

/** Write the tree at `cid` into the directory `path`. */
export async function getTree(
  home: HomeCas,
  cid: Cid,
  path: string,
  output: Output,
): Promise<void> {
  const { files, bytes } = await placeTree(home.cas, cid, path, { progress: teller(output) });
  output.note(`${path}: ${files} files, ${size(bytes)}`);
}

/** Says now and then how far it has come. */
function teller(output: Output): (files: number, bytes: number) => void {
  let next = performance.now() + TELL_MS;
  return (files, bytes) => {
    if (performance.now() < next) return;
    next = performance.now() + TELL_MS;
    output.note(`${files} files, ${size(bytes)}`);
  };
}
