/** @module Tests of the sqlite provider. */

import assert from "node:assert/strict";
import { zstdDecompressSync } from "node:zlib";
import { checkCas, cidOf, objectName, openHttpCas, openSqliteCas } from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { openHttpClient } from "../../lib/net/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { damageRows, onFile, unfinished } from "./sqlite_kit.ts";

const text = (value: string) => new TextEncoder().encode(value);
const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};

/** The store in `root`, as another process has it. */
async function inOtherProcess(root: string) {
  const tmp = `${root}/spool`;
  await Deno.mkdir(tmp);
  const script = new URL("./serving_process.ts", import.meta.url).pathname;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", script, "sqlite", root, tmp],
    stdout: "piped",
  }).spawn();
  const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const url = (await reader.read()).value?.trim() ?? "";
  await reader.cancel();
  const cas = openHttpCas(openHttpClient({ server: url }), { tmp, ownsClient: true });
  return {
    cas,
    async [Symbol.asyncDispose]() {
      await cas[Symbol.asyncDispose]();
      process.kill("SIGKILL");
      await process.status;
    },
  };
}

Deno.test("the sqlite store keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  const path = scratch.join("store.sqlite");
  await using cas = await openSqliteCas({ path });
  const files = scratch.join("files");
  await Deno.mkdir(files);
  await using other = await inOtherProcess(scratch.path);
  await checkCas(() => Promise.resolve(cas), {
    scratch: files,
    damage: (cid, how) => damageRows(path, cid, how),
    leftovers: () => unfinished(path),
    again: () => Promise.resolve(other.cas),
  });
  assert.deepEqual(await unfinished(path), []);
});

Deno.test("all blobs are in one file, which is found again", async () => {
  await using scratch = await TempDir.make();
  const path = scratch.join("made/on/the/way/store.sqlite");
  const blobs = [text(""), text("abc"), noise(5_000_000), new Uint8Array(5_000_000)];
  {
    await using cas = await openSqliteCas({ path });
    for (const data of blobs) await cas.put(data);
  }
  const names = await Array.fromAsync(Deno.readDir(scratch.join("made/on/the/way")));
  assert.deepEqual(names.map((entry) => entry.name), ["store.sqlite"]);
  await using cas = await openSqliteCas({ path });
  for (const data of blobs) {
    assert.deepEqual(await cas.get(cidOf(data)), data);
    assert.equal(await cas.integrity(cidOf(data)), "ok");
    for (const [from, to] of [[0, 9], [1_048_570, 2_100_000], [-5, undefined]] as const) {
      const body = await cas.getRange(cidOf(data), from, to);
      const found = await new Response(body?.stream as ReadableStream).bytes();
      assert.deepEqual(found, data.slice(from, to));
    }
  }
  const usage = await cas.usage();
  assert.equal(usage.blobs, 4);
  assert.ok(usage.bytes > 5_000_000 && usage.bytes < 5_100_000, "zeros are compressed");
  assert.deepEqual((await Array.fromAsync(cas.list())).sort(), blobs.map(cidOf).sort());
});

Deno.test("a chunk that is gone, and rows that were swapped, are damage", async () => {
  await using scratch = await TempDir.make();
  const path = scratch.join("store.sqlite");
  await using cas = await openSqliteCas({ path });
  const [first, second] = [noise(3_000_000), noise(3_000_000)];
  const cids = [await cas.put(first), await cas.put(second)] as const;
  onFile(path, (db) => {
    const frame = db.prepare("SELECT frame FROM blobs WHERE name = ?");
    const [a, b] = cids.map((cid) => Number(frame.get(objectName(cid))?.["frame"]));
    const move = db.prepare("UPDATE chunks SET frame = ? WHERE frame = ?");
    for (const [to, from] of [[-1, a], [a, b], [b, -1]] as const) {
      move.run(to as number, from as number);
    }
  });
  for (const cid of cids) {
    assert.equal(await cas.integrity(cid), "corrupt");
    await assert.rejects(cas.get(cid), (error) => isError(error, "integrity"));
  }
  for (const data of [first, second]) assert.deepEqual(await cas.get(await cas.put(data)), data);
  onFile(path, (db) => db.exec("DELETE FROM chunks WHERE place = 1"));
  for (const [i, cid] of cids.entries()) {
    assert.equal(await cas.integrity(cid), "corrupt");
    await assert.rejects(cas.getRange(cid, 0, 5), (error) => isError(error, "integrity"));
    await cas.put([first, second][i] as Uint8Array);
    assert.equal(await cas.integrity(cid), "ok");
  }
});

Deno.test("what is read is not released, and what another process drops says so", async () => {
  await using scratch = await TempDir.make();
  const path = scratch.join("store.sqlite");
  await using cas = await openSqliteCas({ path });
  await using other = await openSqliteCas({ path });
  const data = noise(6_000_000);
  const cid = await cas.put(data);
  const body = await cas.getStream(cid);
  assert.equal(await cas.release(cid), 0);
  assert.deepEqual(await new Response(body?.stream as ReadableStream).bytes(), data);
  const again = await cas.getStream(cid);
  assert.ok(await other.release(cid) > 6_000_000);
  await assert.rejects(new Response(again?.stream as ReadableStream).bytes(), (error) => {
    return isError(error, "unavailable") && error.message.includes(cid);
  });
  assert.equal(await cas.get(cid), null);
});

Deno.test("puts that stand still are of a crash and swept, and those under way are not", async () => {
  await using scratch = await TempDir.make();
  const path = scratch.join("store.sqlite");
  await using cas = await openSqliteCas({ path });
  const go = Promise.withResolvers<void>();
  const midway = Promise.withResolvers<void>();
  const data = noise(5_000_000);
  let at = 0;
  const source = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (at > 4_000_000) {
        midway.resolve();
        await go.promise;
      }
      if (at >= data.length) return controller.close();
      controller.enqueue(data.slice(at, at += 100_000));
    },
  });
  const put = cas.putStream(source);
  await midway.promise;
  await (await openSqliteCas({ path }))[Symbol.asyncDispose]();
  assert.equal(new Set(await unfinished(path)).size, 1);
  await (await openSqliteCas({ path, sweepAfterMs: -1 }))[Symbol.asyncDispose]();
  assert.deepEqual(await unfinished(path), []);
  go.resolve();
  await assert.rejects(put, (error) => {
    return isError(error, "unavailable") && error.message.includes("Put it again");
  });
  assert.deepEqual(await unfinished(path), [], "what it wrote after that is gone, too");
  assert.equal(await cas.put(data), cidOf(data));
});

Deno.test("a file that is no store of ours is refused, and says what it is", async () => {
  await using scratch = await TempDir.make();
  await Deno.writeTextFile(scratch.join("text"), "this is no database, however long it is");
  await assert.rejects(
    openSqliteCas({ path: scratch.join("text") }),
    (error) => isError(error, "unavailable") && error.message.includes("not a database"),
  );
  const path = scratch.join("newer.sqlite");
  await (await openSqliteCas({ path }))[Symbol.asyncDispose]();
  onFile(path, (db) => db.exec("UPDATE store_format SET version = 99"));
  await assert.rejects(
    openSqliteCas({ path }),
    (error) => isError(error, "unavailable") && error.message.includes("99"),
  );
});

Deno.test("a compressed blob is given as its frame, unless it is damaged", async () => {
  await using scratch = await TempDir.make();
  const path = scratch.join("store.sqlite");
  await using cas = await openSqliteCas({ path });
  const data = new Uint8Array(400_000).map((_, i) => i >> 9);
  const cid = await cas.put(data);
  const frame = await cas.getFrame(cid);
  assert.ok(frame !== null && frame.blob === data.length && frame.length < 50_000);
  const bytes = await new Response(frame.stream as ReadableStream).bytes();
  assert.equal(bytes.length, frame.length);
  assert.deepEqual(new Uint8Array(zstdDecompressSync(bytes)), data);
  assert.equal(await cas.getFrame(await cas.put(noise(400_000))), null, "it saves nothing");
  await damageRows(path, cid, "flipped");
  await assert.rejects(cas.getFrame(cid), (error) => isError(error, "integrity"));
  assert.equal(await cas.getFrame(cidOf(text("absent"))), null);
});
