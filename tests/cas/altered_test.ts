/** @module Every bit of a stored object, flipped: a check finds it, and nothing but the right bytes is ever delivered. */

import assert from "node:assert/strict";
import {
  type Cid,
  inspect,
  objectName,
  openCached,
  openDisk,
  openSqliteCas,
} from "../../lib/cas/mod.ts";
import { objectKey } from "../../lib/cas/objects.ts";
import { openS3 } from "../../lib/cas/s3.ts";
import { nullLog, systemClock } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { objectPath } from "./disk_kit.ts";
import { FakeS3 } from "./s3_fake.ts";
import { s3Env } from "./s3_kit.ts";
import { onFile } from "./sqlite_kit.ts";

const text = (value: string) => new TextEncoder().encode(value);
const ABC = text("abc");
/** The object of `abc` as piloop writes it: without a size. */
const PILOOP = Uint8Array.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x19, 0, 0, 0x61, 0x62, 0x63]);

const flipped = (bytes: Uint8Array, bit: number) =>
  bytes.map((byte, at) => at === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte) as Uint8Array<
    ArrayBuffer
  >;

/** The bit of a header that decoders do not look at. */
const UNUSED = 4 * 8 + 4;

Deno.test("every flipped bit of an object is found, and mended by the next put", async () => {
  await using scratch = await TempDir.make();
  await using cas = await openDisk({ path: scratch.path });
  const blobs: [Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer> | null, number][] = [
    [text("a small blob is stored as it is"), null, 0],
    [text("compressed ".repeat(2_000)), null, 0],
    // Of the window of a frame without a size, other encoders write any power of two.
    [ABC, PILOOP, 4],
  ];
  for (const [data, foreign, misses] of blobs) {
    const cid = await cas.put(data);
    const path = objectPath(scratch.path, cid);
    const right = foreign ?? await Deno.readFile(path);
    await Deno.writeFile(path, right);
    assert.equal(await cas.integrity(cid), "ok");
    const missed: number[] = [];
    let altered = 0;
    for (let bit = 0; bit < Math.min(right.length, 60) * 8; bit++) {
      await Deno.writeFile(path, flipped(right, bit));
      const found = await cas.integrity(cid);
      if (found === "ok") missed.push(bit);
      if (found !== "corrupt") assert.deepEqual(await cas.get(cid), data);
      if (found !== "altered") continue;
      altered++;
      if (altered % 2 === 0) await cas.put(data);
      else {
        const [fault] = await Array.fromAsync(inspect(cas, { cids: [cid], repair: true }));
        assert.deepEqual([fault?.state, fault?.mended], ["altered", true]);
      }
      assert.equal(await cas.integrity(cid), "ok");
    }
    assert.ok(missed.length <= misses, `bits ${missed} of ${data.length} bytes`);
    assert.ok(altered > 0);
  }
});

Deno.test("an altered object of a file, a bucket and a cache is found, read, and mended", async () => {
  await using scratch = await TempDir.make();
  await using fake = new FakeS3();
  const path = scratch.join("store.sqlite");
  await using rows = await openSqliteCas({ path });
  await using bucket = await openS3({ url: "s3://bucket", env: s3Env(fake.url) });
  await using cache = await openCached({
    path: scratch.join("here"),
    remote: await openDisk({ path: scratch.join("there") }),
    where: "there",
    clock: systemClock,
    log: nullLog,
  });
  const onDisk = (root: string) => async (cid: Cid) => {
    const file = objectPath(scratch.join(root), cid);
    await Deno.writeFile(file, flipped(await Deno.readFile(file), UNUSED));
  };
  const alter = {
    rows: (cid: Cid) =>
      onFile(path, (db) => {
        const where = "frame = (SELECT frame FROM blobs WHERE name = ?)";
        const found = db.prepare(`SELECT bytes FROM chunks WHERE ${where}`).get(objectName(cid));
        db.prepare(`UPDATE chunks SET bytes = ? WHERE ${where}`)
          .run(flipped(found?.["bytes"] as Uint8Array, UNUSED), objectName(cid));
      }),
    bucket: (cid: Cid) => {
      const bytes = fake.objects.get(objectKey(cid)) ?? new Uint8Array(0);
      fake.objects.set(objectKey(cid), flipped(bytes, UNUSED));
    },
    here: onDisk("here"),
    there: onDisk("there"),
  };
  for (const data of [text("a small one"), text("large ".repeat(100_000))]) {
    for (const [store, damage] of [[rows, alter.rows], [bucket, alter.bucket]] as const) {
      const cid = await store.put(data);
      for (
        const mend of [
          () => store.put(data),
          () => Array.fromAsync(inspect(store, { repair: true })),
        ]
      ) {
        await damage(cid);
        assert.equal(await store.integrity(cid), "altered");
        assert.deepEqual(await store.get(cid), data);
        await mend();
        assert.equal(await store.integrity(cid), "ok");
      }
    }
    const cid = await cache.put(data);
    for (const places of [["here"], ["there"], ["here", "there"]] as const) {
      for (const place of places) await alter[place](cid);
      assert.equal(await cache.mend(cid), "mended");
      assert.equal(await cache.mend(cid), "ok");
      assert.equal(await cache.integrity(cid), "ok");
    }
  }
});
