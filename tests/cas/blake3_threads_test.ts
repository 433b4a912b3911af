/** @module Tests of hashing and storing large blobs in threads. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { type Cid, cidOf, cidOfDigest, createHasher, openDisk } from "../../lib/cas/mod.ts";
import { CopySource } from "../../lib/cas/copy_file.ts";
import { hashFile } from "../../lib/cas/hash_file.ts";
import { endHashPool, hashPool, startHashPool } from "../../lib/cas/hash_pool.ts";
import { FrameWriter } from "../../lib/cas/frame_writer.ts";
import { rawFrame } from "../../lib/cas/zstd_frame.ts";
import { rawFrameSize } from "../../lib/cas/raw_blocks.ts";
import { isError } from "../../lib/home/mod.ts";
import { run, TempDir } from "../kit/mod.ts";
import { leftovers, objectPath } from "./disk_kit.ts";

const MIB = 1024 * 1024;
const threads = navigator.hardwareConcurrency > 1;

/** Bytes that do not compress, the same in every run. */
function noise(length: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = 12345;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, length);
}

const all = noise(48 * MIB);
const hash = (bytes: Uint8Array) => {
  const hasher = createHasher();
  hasher.update(bytes);
  return cidOfDigest(hasher.digest());
};

/** `bytes`, in pieces of an odd size. */
const streamOf = (bytes: Uint8Array) => {
  let at = 0;
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at += 300_007));
    },
  });
};

/** Run `work` with threads that are up, and end them. */
async function withThreads(work: () => Promise<void>): Promise<void> {
  try {
    assert.equal((await startHashPool()) !== null, threads);
    await work();
  } finally {
    await endHashPool();
  }
}

async function sameObject(root: string, cid: Cid, bytes: Uint8Array): Promise<void> {
  const cas = await openDisk({ path: root });
  const found = await cas.get(cid);
  assert.equal(cid, cidOf(bytes));
  assert.ok(found !== null && found.length === bytes.length);
  assert.ok(Buffer.compare(found, bytes) === 0);
}

Deno.test("a large file of any length has the same address in threads as in one", async () => {
  await using scratch = await TempDir.make();
  await withThreads(async () => {
    for (const more of [0, 1, 65_535, 65_536, 65_537, 131_072, 4 * MIB, 4 * MIB + 1, 9 * MIB - 1]) {
      const bytes = all.subarray(0, 32 * MIB + more);
      await Deno.writeFile(scratch.join("file"), bytes);
      assert.equal(await hashFile(scratch.join("file")), hash(bytes), `${more} bytes more`);
    }
  });
});

Deno.test("a large file is stored in parts, at once, as one frame of raw blocks", async () => {
  await using root = await TempDir.make();
  await withThreads(async () => {
    const cas = await openDisk({ path: root.join("store") });
    for (const more of [0, 1, 65_536, 65_537, 131_072 + 5, 4 * MIB + 65_536]) {
      const bytes = all.subarray(0, 33 * MIB + more);
      await Deno.writeFile(root.join("file"), bytes);
      const cid = await cas.putFile(root.join("file"));
      await sameObject(root.join("store"), cid, bytes);
      const { size } = await Deno.stat(objectPath(root.join("store"), cid));
      assert.equal(size, rawFrameSize(bytes.length));
    }
    assert.deepEqual(await leftovers(root.join("store")), []);
  });
});

Deno.test("a large file is stored while the threads start, and after they ended, the same", async () => {
  await using root = await TempDir.make();
  await Deno.writeFile(root.join("file"), all);
  await endHashPool();
  try {
    const cas = await openDisk({ path: root.join("store") });
    const cid = await cas.putFile(root.join("file"));
    await sameObject(root.join("store"), cid, all);
    await endHashPool();
    await Deno.remove(objectPath(root.join("store"), cid));
    const put = cas.putFile(root.join("file"));
    await startHashPool();
    await endHashPool();
    assert.equal(await put, cid);
    await sameObject(root.join("store"), cid, all);
  } finally {
    await endHashPool();
  }
});

Deno.test("streams that are hashed and compressed in threads are stored right", async () => {
  await using root = await TempDir.make();
  const lines = Array.from({ length: 900_000 }, (_, i) => `line ${i * 7919 % 10_007} of a log\n`);
  const text = new TextEncoder().encode(lines.join(""));
  await withThreads(async () => {
    const cas = await openDisk({ path: root.path });
    const blobs = [all, all.subarray(0, 40 * MIB + 1), text, new Uint8Array(40 * MIB)];
    const cids = await Promise.all(
      blobs.map((bytes) => cas.putStream(streamOf(bytes), { expectedLength: bytes.length })),
    );
    for (const [i, bytes] of blobs.entries()) {
      await sameObject(root.path, cids[i] as Cid, bytes);
    }
    const { size } = await Deno.stat(objectPath(root.path, cids[2] as Cid));
    assert.ok(size < text.length / 3, `${size} bytes of ${text.length}`);
  });
});

Deno.test("a stream is hashed in threads, or from some batch on, to the same address and the same frame", async () => {
  for (const length of [40 * MIB, 40 * MIB + 1, 33 * MIB - 65_536]) {
    const bytes = all.subarray(0, length);
    await endHashPool();
    const parts: Uint8Array[] = [];
    const target = {
      append: (part: Uint8Array) => Promise.resolve(void parts.push(part.slice())),
      overwrite: () => Promise.reject(new Error("the length was announced")),
    };
    const writer = new FrameWriter(target, length, true);
    try {
      for (let at = 0; at < length; at += 300_007) {
        // The first batch starts them, and the blob does not wait.
        if (at > 10 * MIB && hashPool() === null) await startHashPool();
        await writer.write(bytes.subarray(at, Math.min(length, at + 300_007)));
      }
      assert.equal(cidOfDigest(await writer.finish()), cidOf(bytes));
    } finally {
      writer.close();
    }
    const frame = Buffer.concat(parts);
    assert.ok(frame.equals(rawFrame(bytes)));
  }
  await endHashPool();
});

Deno.test("threads that die in the middle of streams fail the put, which leaves nothing and can be made again", async () => {
  await using root = await TempDir.make();
  await withThreads(async () => {
    const cas = await openDisk({ path: root.path });
    for (const bytes of [all, new Uint8Array(48 * MIB)]) {
      await startHashPool();
      let at = 0;
      const source = new ReadableStream<Uint8Array>({
        async pull(controller) {
          if (at >= bytes.length) return controller.close();
          if (at === 8 * MIB) await endHashPool();
          controller.enqueue(bytes.slice(at, at += MIB));
        },
      });
      const cid = cidOf(bytes);
      const put = await cas.putStream(source, { expectedLength: bytes.length }).catch((error) =>
        error
      );
      // What was in a thread is gone with it.
      assert.ok(put === cid || isError(put, "unavailable"), String(put));
      assert.equal(await cas.has(cid), put === cid);
      assert.equal(await cas.put(bytes), cid);
    }
    assert.deepEqual(await leftovers(root.path), []);
  });
});

Deno.test("a file that is cut, replaced or written to while it is stored is refused with conflict", async () => {
  await using root = await TempDir.make();
  const path = root.join("file");
  const conflict = (error: unknown) => isError(error, "conflict") && error.message.includes(path);
  await withThreads(async () => {
    for (const change of ["cut", "replaced", "written"]) {
      await Deno.writeFile(path, all);
      using source = await CopySource.open(path);
      assert.ok(source?.isDense);
      if (change === "cut") await Deno.truncate(path, 20 * MIB);
      if (change === "replaced") {
        await Deno.writeFile(`${path}.new`, all);
        await Deno.rename(`${path}.new`, path);
      }
      if (change === "written") {
        await Deno.utime(path, 1, 1);
        using file = await Deno.open(path, { write: true });
        await file.write(new Uint8Array(1));
      }
      await assert.rejects(source.copy(null), conflict, change);
    }
  });
});

Deno.test({
  name: "a pipe is read once, and a file that is not there is not found",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using root = await TempDir.make();
    const pipe = root.join("pipe");
    await run(["mkfifo", pipe]);
    const cas = await openDisk({ path: root.join("store") });
    await Deno.writeFile(root.join("file"), all.subarray(0, 200_000));
    const written = run(["sh", "-c", 'cat "$1/file" > "$1/pipe"', "sh", root.path]);
    assert.equal(await cas.putFile(pipe), cidOf(all.subarray(0, 200_000)));
    await written;
    const missing = (error: unknown) => isError(error, "not_found");
    await assert.rejects(cas.putFile(root.join("nothing")), missing);
    await assert.rejects(hashFile(root.join("nothing")), missing);
  },
});

Deno.test("threads end when there is nothing to do", async () => {
  await withThreads(async () => {
    for (let i = 0; i < 100 && hashPool() !== null; i++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.equal(hashPool(), null);
  });
});

Deno.test("a Web Worker that may not read our sources, nor start a program, stores without threads", async () => {
  await using root = await TempDir.make();
  await Deno.writeFile(root.join("file"), all);
  const worker = new Worker(new URL("./disk_worker.ts", import.meta.url), {
    type: "module",
    deno: {
      permissions: { read: [root.path], write: [root.path], net: false, env: false, run: false },
    },
  });
  try {
    const answer = new Promise((resolve) => worker.onmessage = ({ data }) => resolve(data));
    worker.postMessage(root.path);
    assert.deepEqual(await answer, {
      cid: cidOf(all),
      threads: false,
      missing: [],
      journal: true,
      left: 0,
    });
  } finally {
    worker.terminate();
  }
});
