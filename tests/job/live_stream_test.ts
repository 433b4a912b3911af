/** @module Streams of what jobs write: appended parts, files that are written anew, long lines, gaps, and what is hidden. */

import assert from "node:assert/strict";
import { type Cas, type Cid, openMemory } from "../../lib/cas/mod.ts";
import { systemClock } from "../../lib/home/mod.ts";
import { logSource } from "../../lib/job/live_source.ts";
import { LiveStream, type LiveStreamOptions, type Progress } from "../../lib/job/live_stream.ts";
import { LiveSync } from "../../lib/job/live_sync.ts";
import type { SavedPart } from "../../lib/job/mod.ts";
import { TempDir, until } from "../kit/mod.ts";

type Part = Omit<SavedPart, "lease">;

/** A file that grows, and a server that puts its parts together by the rule of its call. */
class Bench implements AsyncDisposable {
  readonly cas: Cas = openMemory();
  readonly parts: Part[] = [];
  /** What the server has; holes are `.`. */
  text = "";
  /** What `save` does instead. */
  answer: (() => Promise<boolean>) | null = null;

  private constructor(readonly dir: TempDir) {}

  static async make(): Promise<Bench> {
    return new Bench(await TempDir.make());
  }

  get path(): string {
    return this.dir.join("log");
  }

  append(text: string): Promise<void> {
    return Deno.writeTextFile(this.path, text, { append: true });
  }

  stream(options: Partial<LiveStreamOptions> = {}, progress: Progress | null = null): LiveStream {
    return new LiveStream({
      cas: this.cas,
      save: async (part) => {
        if (this.answer !== null) return await this.answer();
        const bytes = await this.cas.get(part.blob as Cid);
        const text = new TextDecoder("latin1").decode(bytes ?? undefined);
        assert.equal(text.length, part.bytes);
        this.parts.push(part);
        this.text = this.text.slice(0, part.offset).padEnd(part.offset, ".") + text;
        return true;
      },
      name: "log",
      source: logSource(this.dir.path, "log"),
      hide: null,
      head: 1e9,
      tail: 1e9,
      ...options,
    }, progress);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dir[Symbol.asyncDispose]();
  }
}

Deno.test("only what was appended is sent", async () => {
  await using bench = await Bench.make();
  const stream = bench.stream();
  assert.equal(await stream.step(), false);
  await bench.append("one\n");
  assert.equal(await stream.step(), true);
  assert.equal(await stream.step(), false);
  await bench.append("two");
  await stream.step();
  await bench.append(" three\n");
  await stream.step(true);
  assert.equal(bench.text, "one\ntwo three\n");
  assert.deepEqual(bench.parts.map(({ offset, bytes }) => [offset, bytes]), [[0, 4], [4, 3], [
    7,
    7,
  ]]);
});

Deno.test("a file that is cut, replaced, or written anew is sent from its start", async (test) => {
  const cases: [string, (path: string) => Promise<void>][] = [
    ["cut", (path) => Deno.writeTextFile(path, "new")],
    ["replaced", async (path) => {
      await Deno.writeTextFile(`${path}.next`, "new, and longer than what was there before");
      await Deno.rename(`${path}.next`, path);
    }],
    [
      "written anew, and longer",
      (path) => Deno.writeTextFile(path, "new, and longer than what was there before"),
    ],
  ];
  for (const [how, change] of cases) {
    await test.step(how, async () => {
      await using bench = await Bench.make();
      const stream = bench.stream();
      await bench.append("some old text\n");
      await stream.step();
      await change(bench.path);
      await stream.step();
      await bench.append(" end");
      await stream.step();
      const there = await Deno.readTextFile(bench.path);
      assert.equal(bench.text.slice(0, there.length), there);
      assert.equal(bench.parts[1]?.offset, 0);
    });
  }
});

Deno.test("a file that goes and comes back is another one", async () => {
  await using bench = await Bench.make();
  const stream = bench.stream();
  await bench.append("first\n");
  await stream.step();
  await Deno.remove(bench.path);
  assert.equal(await stream.step(), false);
  await Deno.writeTextFile(bench.dir.join("filler"), "takes the inode, maybe");
  await bench.append("second, longer\n");
  await stream.step();
  assert.equal(bench.text, "second, longer\n");
});

Deno.test("a line is sent once it is whole, unless it is long or the last", async () => {
  await using bench = await Bench.make();
  const stream = bench.stream({ lines: true });
  await bench.append('{"a":1}\n{"b"');
  await stream.step();
  assert.equal(bench.text, '{"a":1}\n');
  await bench.append(":2}\n{");
  await stream.step();
  assert.equal(bench.text, '{"a":1}\n{"b":2}\n');
  const long = "x".repeat(3_000_000);
  await bench.append(long);
  await stream.step();
  assert.ok(String(bench.text).length > 2_000_000);
  assert.ok(bench.parts.every(({ bytes }) => bytes <= 4 * 1024 * 1024));
  await stream.step(true);
  assert.equal(bench.text, `{"a":1}\n{"b":2}\n{${long}`);
});

Deno.test("what a server did not take is sent again, and nothing is lost or doubled", async () => {
  await using bench = await Bench.make();
  const stream = bench.stream();
  await bench.append("one\n");
  bench.answer = () => Promise.reject(new Error("away"));
  await assert.rejects(stream.step(), /away/);
  await bench.append("two\n");
  await assert.rejects(stream.step(), /away/);
  bench.answer = null;
  await stream.step();
  assert.equal(bench.text, "one\ntwo\n");
});

Deno.test("a server that takes nothing is asked once in many steps, and gets all of it when it does", async () => {
  await using bench = await Bench.make();
  let asked = 0;
  bench.answer = () => Promise.resolve(++asked < 0);
  const stream = bench.stream();
  for (const text of ["one", "two", "three"]) {
    await bench.append(text);
    assert.equal(await stream.step(), false);
  }
  assert.equal(asked, 1);
  bench.answer = null;
  for (let step = 0; bench.text === "" && step < 1_000; step++) await stream.step();
  assert.equal(bench.text, "onetwothree");
});

Deno.test("of a flood, the start and the newest are sent, with a gap between whole lines", async () => {
  await using bench = await Bench.make();
  const stream = bench.stream({ head: 1000, tail: 2000 });
  const line = (n: number) => `line ${String(n).padStart(10, "0")}\n`;
  await bench.append(Array.from({ length: 100 }, (_, n) => line(n)).join(""));
  await stream.step();
  await bench.append(Array.from({ length: 100_000 }, (_, n) => line(n + 100)).join(""));
  await stream.step();
  assert.ok(bench.text.startsWith(line(0) + line(1)));
  assert.ok(bench.text.endsWith(line(100_099)));
  assert.match(bench.text, /\n\.+line \d{10}\n/);
  const sent = bench.parts.reduce((sum, { bytes }) => sum + bytes, 0);
  assert.ok(sent < 10_000, String(sent));
  assert.equal(bench.text.length, (await Deno.stat(bench.path)).size);
});

/** Hides `secret`, also across pieces, as a redactor does: it holds back what may be the start of it. */
function hiding(secret: string): () => TransformStream<Uint8Array, Uint8Array> {
  return () => {
    let held = "";
    const encode = (text: string) => new TextEncoder().encode(text);
    return new TransformStream({
      transform(bytes, controller) {
        const text = (held + new TextDecoder().decode(bytes)).replaceAll(secret, "***");
        const keep = Math.min(secret.length - 1, text.length);
        held = text.slice(text.length - keep);
        if (text.length > keep) controller.enqueue(encode(text.slice(0, text.length - keep)));
      },
      flush: (controller) => controller.enqueue(encode(held)),
    });
  };
}

Deno.test("what is hidden stays so across parts, and across processes of the worker", async () => {
  await using bench = await Bench.make();
  const hide = hiding("s3cret-value");
  const stream = bench.stream({ hide });
  await bench.append("before s3cret");
  await stream.step();
  await bench.append("-value after, and again: s3c");
  await stream.step();
  const progress = stream.progress;
  assert.ok(progress !== null);
  const next = bench.stream({ hide }, progress);
  await bench.append("ret-value.\n");
  await next.step(true);
  assert.equal(bench.text, "before *** after, and again: ***.\n");
  assert.equal(bench.parts.filter(({ offset }) => offset === 0).length, 1);
});

Deno.test("another process goes on where the last one was, and sees a file that was cut meanwhile", async (test) => {
  for (const see of [undefined, () => {}]) {
    await test.step(
      see === undefined ? "from there" : "from the start, for who reads along",
      async () => {
        await using bench = await Bench.make();
        const options = see === undefined ? {} : { see };
        const stream = bench.stream(options);
        await bench.append("one\n");
        await stream.step();
        const progress = stream.progress;
        await bench.append("two\n");
        const next = bench.stream(options, progress);
        await next.step();
        assert.deepEqual(bench.parts.map(({ offset, bytes }) => [offset, bytes]), [[0, 4], [4, 4]]);
        await Deno.writeTextFile(bench.path, "3\n");
        await bench.stream(options, next.progress).step();
        assert.equal(bench.text.slice(0, 2), "3\n");
      },
    );
  }
});

Deno.test("who reads along sees every byte of the file in order, and when it begins anew", async () => {
  await using bench = await Bench.make();
  let seen = "";
  const stream = bench.stream({
    see: (bytes) => seen = bytes === null ? "" : seen + new TextDecoder().decode(bytes),
  });
  await bench.append("a".repeat(2_500_000));
  await stream.step();
  assert.equal(seen.length, 2_500_000);
  await Deno.writeTextFile(bench.path, "b");
  await stream.step();
  assert.equal(seen, "b");
});

Deno.test("streams are followed until they are closed, and a failure of one holds up no other", async () => {
  await using bench = await Bench.make();
  const events: string[] = [];
  const remembered: Record<string, Progress>[] = [];
  const sync = new LiveSync({
    clock: systemClock,
    log: { event: (event) => void events.push(event) },
    lease: 1,
    everyMs: 10,
    remember: (progress) => (remembered.push(progress), Promise.resolve()),
  });
  const broken = bench.stream({
    name: "broken",
    source: { read: () => Promise.reject(new Error("io")) },
  });
  sync.add(broken);
  sync.add(bench.stream());
  await bench.append("one");
  await until("it is sent", () => bench.text === "one");
  await bench.append("two");
  await sync.close(true);
  assert.equal(bench.text, "onetwo");
  assert.ok(events.includes("job.stream_unsent"));
  assert.equal(remembered.at(-1)?.["log"]?.sent, 6);
});

Deno.test("a server that does not answer holds up the end of no job, and nothing is remembered after it", async () => {
  await using bench = await Bench.make();
  const late: (() => void)[] = [];
  const clock = {
    ...systemClock,
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 20), signal),
  };
  let remembered = 0;
  const sync = new LiveSync({
    clock,
    log: { event: () => {} },
    lease: 1,
    remember: () => (remembered++, Promise.resolve()),
  });
  bench.answer = () => new Promise((resolve) => late.push(() => resolve(true)));
  sync.add(bench.stream());
  await bench.append("one");
  await sync.close(true);
  assert.ok(late.length > 0);
  late.forEach((answer) => answer());
  await systemClock.sleep(50);
  assert.equal(remembered, 0);
});
