/** @module Tests of manifests that are written and read entry by entry. */

import assert from "node:assert/strict";
import {
  type Cas,
  type Cid,
  cidOf,
  digestOf,
  drislCid,
  encodeManifest,
  type Entry,
  openDisk,
  openMemory,
  putEntries,
  putManifest,
  readEntries,
} from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";

const blob = cidOf(new Uint8Array([1]));
const file = (path: string): Entry => ({ path, mode: 0o644, size: 1, blob });

async function put(cas: Cas, bytes: Uint8Array): Promise<Cid> {
  return drislCid(digestOf(await cas.put(bytes)));
}

Deno.test("a manifest that is written entry by entry is the one that is written at once", async () => {
  const cas = openMemory();
  const link: Entry = { path: "x", mode: 0o777, size: 0, link: "../y", mtimeNs: -5n };
  for (const count of [0, 1, 23, 24, 255, 256, 3_000]) {
    const entries = Array.from(
      { length: count },
      (_, at) => file(`d${String(at).padStart(5, "0")}/f`),
    );
    if (count > 0) entries.push(link);
    const cid = await putEntries(cas, entries);
    assert.equal(cid, await putManifest(cas, entries));
    assert.deepEqual(await Array.fromAsync(readEntries(cas, cid)), entries);
  }
});

Deno.test("a manifest without entries has the known address", async () => {
  assert.equal(
    await putEntries(openMemory(), []),
    "bafyr4id34nxqhp2ckyg5e5dwlbobtczdddjn6tuirkhxxozntl3qnzuiuq",
  );
});

Deno.test("entries that are out of order, repeat, or are beneath a file are refused, written and read", async () => {
  const cas = openMemory();
  for (
    const paths of [["b", "a"], ["a", "a"], ["a", "a-b", "a/b"], ["a", "a/b/c"], ["a/", "b"], [
      "../a",
    ]]
  ) {
    await assert.rejects(
      putEntries(cas, paths.map(file)),
      (error) => isError(error, "integrity", "unsafe_path"),
    );
  }
  for (const paths of [["a-b", "a/b", "a0"], ["a", "aa", "ab/c"], ["\uffff", "\u{10000}"]]) {
    await putEntries(cas, paths.map(file));
  }
});

Deno.test("what is no manifest, is cut off, or has bytes after it is refused entry by entry", async () => {
  const cas = openMemory();
  const good = encodeManifest([file("a"), file("b/c")]);
  const read = async (bytes: Uint8Array) =>
    await Array.fromAsync(readEntries(cas, await put(cas, bytes)));
  assert.equal((await read(good)).length, 2);
  for (let length = 0; length < good.length; length++) {
    await assert.rejects(read(good.slice(0, length)), (error) => isError(error, "integrity"));
  }
  await assert.rejects(read(new Uint8Array([...good, 0])), (error) => isError(error, "integrity"));
  // A list that claims more entries than any store holds.
  const lie = new Uint8Array([...good.slice(0, 9), 0x9b, 255, 255, 255, 255, 255, 255, 255, 255]);
  await assert.rejects(read(lie), (error) => isError(error, "integrity"));
  await assert.rejects(Array.fromAsync(readEntries(cas, blob)), (e) => isError(e, "integrity"));
  const absent = drislCid(digestOf(cidOf(new Uint8Array([9, 9]))));
  await assert.rejects(Array.fromAsync(readEntries(cas, absent)), (e) => isError(e, "not_found"));
});

Deno.test("a manifest of very many entries is written and read in little memory", async () => {
  await using scratch = await TempDir.make();
  await using cas = await openDisk({ path: scratch.path });
  const count = 200_000;
  const before = Deno.memoryUsage().rss;
  let most = 0;
  const sample = (at: number) => {
    if (at % 10_000 === 0) most = Math.max(most, Deno.memoryUsage().rss - before);
  };
  const entries = function* () {
    for (let at = 0; at < count; at++) {
      sample(at);
      yield file(`directory/${String(at).padStart(7, "0")}.txt`);
    }
  };
  const cid = await putEntries(cas, entries());
  let read = 0;
  for await (const { path } of readEntries(cas, cid)) {
    sample(read);
    assert.equal(path, `directory/${String(read++).padStart(7, "0")}.txt`);
  }
  assert.equal(read, count);
  assert.ok(most < 100 * 1024 * 1024, `${most} bytes of memory`);
});
