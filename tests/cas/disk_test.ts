/** @module Tests of the disk provider. */

import assert from "node:assert/strict";
import { zstdCompressSync } from "node:zlib";
import { checkCas, type Cid, cidOf, inspect, objectName, openDisk } from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { damageObject, leftovers, objectPath, takeAway } from "./disk_kit.ts";

const text = (value: string) => new TextEncoder().encode(value);
const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};

Deno.test("the disk store keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  const root = scratch.join("store");
  await using opened = new AsyncDisposableStack();
  const open = async () => opened.use(await openDisk({ path: root }));
  await checkCas(open, {
    scratch: scratch.path,
    damage: (cid, how) => damageObject(root, cid, how),
    leftovers: () => leftovers(root),
    again: open,
    outage: () => takeAway(`${root}/blake3`),
  });
  assert.deepEqual(await leftovers(root), []);
});

Deno.test("an object is one file that everybody may read, in a directory named by its digest", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  for (const data of [text("abc"), noise(300_000), new Uint8Array(300_000)]) {
    const cid = await cas.put(data);
    const directory = root.join("blake3", objectName(cid));
    const names = (await Array.fromAsync(Deno.readDir(directory))).map((entry) => entry.name);
    assert.deepEqual(names, ["bytes.zst"]);
    if (Deno.build.os === "windows") continue;
    const mode = async (path: string) => ((await Deno.stat(path)).mode ?? 0) & 0o777;
    assert.equal(await mode(objectPath(root.path, cid)), 0o644 & ~Deno.umask());
    assert.equal(await mode(directory), 0o755 & ~Deno.umask());
  }
  assert.equal(
    objectPath(root.path, cidOf(text("abc"))),
    root.join("blake3/mq33hlbyizith75whn2soounwvemkwcglv45wa75gwogzvn5twcq/bytes.zst"),
  );
});

Deno.test("what does not compress is stored as it is, and what does is compressed", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  const size = async (cid: Cid) => (await Deno.stat(objectPath(root.path, cid))).size;
  for (const length of [1000, 65_000, 3_000_000]) {
    const overhead = await size(await cas.put(noise(length))) - length;
    assert.ok(overhead > 0 && overhead < 100, `${overhead} more bytes for ${length}`);
  }
  for (const length of [5000, 65_000, 3_000_000]) {
    assert.ok(await size(await cas.put(new Uint8Array(length))) < 1000);
  }
});

/** A store as piloop 0.3.1 leaves it: frames that do not say their length. */
async function theirStore(root: TempDir): Promise<Map<Cid, Uint8Array>> {
  const blobs = new Map<Cid, Uint8Array>();
  const texts = Array.from({ length: 60_000 }, (_, i) => `line ${i * 7919}\n`).join("");
  for (
    const data of [
      text("abc"),
      new Uint8Array(0),
      new Uint8Array(1 << 20),
      text(texts),
      noise(200_000),
    ]
  ) {
    const cid = cidOf(data);
    blobs.set(cid, data);
    await Deno.mkdir(root.join("blake3", objectName(cid)), { recursive: true });
    const frame = zstdCompressSync(data, { chunkSize: 4 << 20 });
    await Deno.writeFile(objectPath(root.path, cid), frame, { mode: 0o600 });
  }
  return blobs;
}

Deno.test("a directory that piloop wrote is a store", async () => {
  await using root = await TempDir.make();
  const blobs = await theirStore(root);
  const cas = await openDisk({ path: root.path });
  for (const [cid, data] of blobs) {
    assert.equal(await cas.has(cid), true);
    assert.deepEqual(await cas.get(cid), data);
    const whole = await cas.getStream(cid);
    assert.equal(whole?.length, data.length);
    assert.deepEqual(await new Response(whole?.stream as ReadableStream).bytes(), data);
    assert.equal(await cas.sizeOf(cid), data.length);
    assert.equal(await cas.integrity(cid), "ok");
    const part = await cas.getRange(cid, 1, 3);
    assert.deepEqual(await new Response(part?.stream as ReadableStream).bytes(), data.slice(1, 3));
    assert.equal(await cas.put(data), cid);
  }
  const listed = await Array.fromAsync(cas.list());
  assert.deepEqual(listed.sort(), [...blobs.keys()].sort());
  assert.equal((await cas.usage()).blobs, blobs.size);
});

Deno.test("only directories that are named as objects and hold one are listed", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  const cid = await cas.put(text("one"));
  await Deno.mkdir(root.join("blake3/not-an-object"));
  await Deno.mkdir(root.join("blake3", objectName(cidOf(text("evicted")))));
  await Deno.writeTextFile(root.join("blake3", objectName(cidOf(text("evicted"))), "remote"), "");
  assert.deepEqual(await Array.fromAsync(cas.list()), [cid]);
  const { blobs, bytes } = await cas.usage();
  assert.deepEqual([blobs, bytes], [1, (await Deno.stat(objectPath(root.path, cid))).size]);
});

Deno.test("integrity tells what is whole, missing and damaged, whatever was read before", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  const cid = await cas.put(noise(500_000));
  assert.equal(await cas.integrity(cid), "ok");
  await cas.get(cid);
  await damageObject(root.path, cid, "flipped");
  assert.equal(await cas.integrity(cid), "corrupt");
  assert.equal(await cas.integrity(cidOf(text("nothing"))), "missing");
});

Deno.test("a damaged blob counts as absent for who would put it", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  for (const data of [noise(500), noise(500_000)]) {
    const cid = await cas.put(data);
    assert.equal(await cas.sizeOf(cid, { check: true }), data.length);
    await damageObject(root.path, cid, "flipped");
    assert.equal(await cas.sizeOf(cid, { check: true }), null);
    assert.equal(await cas.has(cid), true);
    await damageObject(root.path, cid, "empty");
    assert.equal(await cas.sizeOf(cid), null);
  }
});

Deno.test("parts of a blob are what Array.slice gives, from raw and compressed objects", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  for (const data of [noise(900), noise(400_000), new Uint8Array(400_000).map((_, i) => i >> 10)]) {
    const cid = await cas.put(data);
    const places = [
      0,
      1,
      65_536,
      131_071,
      131_072,
      131_073,
      399_999,
      400_000,
      500_000,
      -1,
      -70_000,
    ];
    for (const from of places) {
      for (const to of [...places, undefined]) {
        const body = await cas.getRange(cid, from, to);
        const found = await new Response(body?.stream as ReadableStream).bytes();
        assert.deepEqual(found, data.slice(from, to), `${from} ${to} of ${data.length}`);
        assert.equal(body?.length, data.length);
      }
    }
  }
  assert.equal(await cas.getRange(cidOf(text("nothing")), 0, 1), null);
});

Deno.test("an object as large as ours, but cut into other blocks, is read right, too", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  const data = noise(400_000);
  const cid = await cas.put(data);
  const path = objectPath(root.path, cid);
  const ours = await Deno.readFile(path);
  const blocks = [131_072, 131_071, 131_072, 6785];
  const frame = [ours.subarray(0, 14)];
  blocks.reduce((at, size, i) => {
    const word = size << 3 | (i === blocks.length - 1 ? 1 : 0);
    frame.push(
      Uint8Array.of(word & 255, (word >> 8) & 255, word >> 16),
      data.subarray(at, at + size),
    );
    return at + size;
  }, 0);
  await Deno.writeFile(path, new Blob(frame).stream());
  assert.equal((await Deno.stat(path)).size, ours.length);
  const old = new Date(Date.now() - 5000);
  await Deno.utime(path, old, old);
  // The second read knows that it is whole.
  for (let i = 0; i < 2; i++) {
    assert.deepEqual(await cas.get(cid), data);
    for (const [from, to] of [[100, 400_000], [131_072, 300_000], [262_143, 262_145]] as const) {
      const part = await cas.getRange(cid, from, to);
      assert.deepEqual(
        await new Response(part?.stream as ReadableStream).bytes(),
        data.slice(from, to),
      );
    }
  }
});

Deno.test("a part of a damaged blob is not delivered either", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  for (const data of [noise(900), noise(400_000)]) {
    const cid = await cas.put(data);
    await damageObject(root.path, cid, "flipped");
    await assert.rejects(cas.getRange(cid, 0, 10), (error) => isError(error, "integrity"));
  }
});

Deno.test("the root of a cache is refused, with the place of its blobs", async () => {
  await using root = await TempDir.make();
  await Deno.writeTextFile(root.join("remote.url"), "s3://bucket/prefix\n");
  await assert.rejects(openDisk({ path: root.path }), (error) => {
    return isError(error, "config") && error.message.includes(root.path) &&
      error.message.includes("s3://bucket/prefix") && error.message.includes("cached");
  });
});

Deno.test("temporary files of a crash are swept when a store opens, those under way are not", async () => {
  await using root = await TempDir.make();
  await openDisk({ path: root.path });
  const [old, fresh] = [root.join("tmp/old"), root.join("tmp/fresh")];
  await Deno.writeTextFile(old, "left by a crash");
  await Deno.writeTextFile(fresh, "under way");
  await Deno.utime(old, new Date(), new Date(Date.now() - 2 * 60 * 60 * 1000));
  await openDisk({ path: root.path });
  assert.deepEqual(await leftovers(root.path), ["fresh"]);
});

Deno.test("a failure of the file system is unavailable and names the blob, never absence", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  const cid = cidOf(text("in the way"));
  // A file where the directory should be.
  await Deno.writeTextFile(root.join("blake3", objectName(cid)), "");
  const unavailable = (error: unknown) =>
    isError(error, "unavailable") && error.message.includes(cid);
  await assert.rejects(cas.has(cid), unavailable);
  await assert.rejects(cas.put(text("in the way")), (error) => isError(error, "unavailable"));
  assert.deepEqual(await leftovers(root.path), []);
});

Deno.test({
  name:
    "an object that the disk cannot read is damaged: told by name, never served, mended by a put",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using root = await TempDir.make();
    await using cas = await openDisk({ path: root.path });
    const other = await cas.put(text("another"));
    const ways: [string, (path: string) => Promise<void>][] = [
      // A read of it fails with EIO, as that of a bad sector does.
      ["EIO", (path) => Deno.symlink("/proc/self/mem", path)],
      ["ELOOP", (path) => Deno.symlink("bytes.zst", path)],
      ["EISDIR", (path) => Deno.mkdir(`${path}/more`, { recursive: true })],
    ];
    for (const [way, spoil] of ways) {
      for (const length of [500, 500_000]) {
        const data = noise(length);
        const cid = await cas.put(data);
        const path = objectPath(root.path, cid);
        await Deno.remove(path);
        await spoil(path);
        const damaged = (error: unknown) =>
          isError(error, "integrity") && error.message.includes(cid);
        const read = async () => await new Response((await cas.getStream(cid))?.stream).bytes();
        await assert.rejects(cas.get(cid), damaged, way);
        await assert.rejects(read(), damaged, way);
        assert.equal(await cas.sizeOf(cid, { check: true }), null, way);
        const faults = await Array.fromAsync(inspect(cas));
        assert.deepEqual(faults.map((fault) => [fault.cid, fault.state]), [[cid, "corrupt"]], way);
        assert.equal(await cas.put(data), cid);
        assert.deepEqual(await cas.get(cid), data);
        assert.equal(await cas.integrity(cid), "ok");
      }
    }
    assert.deepEqual(await cas.get(other), text("another"));
    assert.deepEqual(await leftovers(root.path), []);
  },
});

/** The output of `disk_process.ts`, started by the shell command `setup`. */
async function inProcess(setup: string, what: string, root: string): Promise<string> {
  const script = new URL("./disk_process.ts", import.meta.url).pathname;
  const { stdout, stderr } = await new Deno.Command("sh", {
    args: [
      "-c",
      `${setup}; exec "$@"`,
      "sh",
      Deno.execPath(),
      "run",
      "-A",
      "--no-check",
      script,
      what,
      root,
    ],
    env: { NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  return decoder.decode(stdout).trim() || decoder.decode(stderr);
}

Deno.test({
  name: "a store that may open no more files says unavailable, and works again when it may",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using root = await TempDir.make();
    const found = await inProcess("ulimit -n 200", "no files left", root.path);
    assert.equal(found, "unavailable unavailable unavailable unavailable fine fine");
    assert.deepEqual(await leftovers(root.path), []);
  },
});

Deno.test({
  name: "a put that the disk has no room for is unavailable, and leaves nothing behind",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using root = await TempDir.make();
    const found = await inProcess("trap '' XFSZ; ulimit -f 2000", "file size limit", root.path);
    assert.equal(found, "unavailable fine");
    assert.deepEqual(await leftovers(root.path), []);
  },
});

Deno.test("a process that is killed in a put leaves no object, and its temporary file is swept", async () => {
  await using root = await TempDir.make();
  const script = new URL("./disk_process.ts", import.meta.url).pathname;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", script, "put", root.path],
    stdout: "piped",
  }).spawn();
  const reader = process.stdout.getReader();
  await reader.read();
  process.kill("SIGKILL");
  await process.status;
  await reader.cancel();
  assert.equal((await leftovers(root.path)).length, 1);
  const cas = await openDisk({ path: root.path, sweepAfterMs: 0 });
  assert.deepEqual(await leftovers(root.path), []);
  assert.deepEqual(await Array.fromAsync(cas.list()), []);
});
