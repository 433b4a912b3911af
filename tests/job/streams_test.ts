import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import { SESSION_STREAM, STREAM_LIMITS } from "../../lib/job/mod.ts";
import { groups } from "../../lib/job/stream_join.ts";
import { until } from "../kit/mod.ts";
import { AgentKit, type AgentWorker, finished, sure } from "./agents_kit.ts";

/** A running agent. */
async function running(
  kit: AgentKit,
): Promise<{ worker: AgentWorker; lease: number; job: number }> {
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  return { worker, lease, job: sure(agent.job) };
}

async function read(kit: AgentKit, job: number, from = 0, stream = SESSION_STREAM) {
  const { bytes, ...rest } = await kit.kit.streams.read(job, stream, from);
  return { ...rest, text: new TextDecoder().decode(bytes) };
}

Deno.test("what a running job wrote is read from any offset, and goes on after its report", async () => {
  await using kit = await AgentKit.make();
  const { worker, lease, job } = await running(kit);
  assert.deepEqual(await read(kit, job), { from: 0, text: "", over: false });
  await worker.saved(lease, SESSION_STREAM, 0, "one\n");
  await worker.saved(lease, SESSION_STREAM, 4, "two\n");
  assert.deepEqual(await read(kit, job), { from: 0, text: "one\ntwo\n", over: false });
  assert.deepEqual(await read(kit, job, 6), { from: 6, text: "o\n", over: false });
  assert.deepEqual(await read(kit, job, 8), { from: 8, text: "", over: false });
  const file = await kit.put("one\ntwo\nthree\n");
  await worker.report(lease, finished({ session: { file, name: "s", cwd: null } }));
  assert.deepEqual(await read(kit, job, 8), { from: 8, text: "three\n", over: true });
  const left = await kit.kit.db.read((tx) => tx.all("SELECT * FROM stream_parts"));
  assert.deepEqual(left, [], "the file has taken the place of its parts");
  await assert.rejects(read(kit, job, 0, "nothing"), SubletError);
});

Deno.test("a part that is sent again changes nothing, and one from an earlier byte replaces what followed", async () => {
  await using kit = await AgentKit.make();
  const { worker, lease, job } = await running(kit);
  await worker.saved(lease, "a.log", 0, "abcdef");
  await worker.saved(lease, "a.log", 0, "abcdef");
  assert.equal((await read(kit, job, 0, "a.log")).text, "abcdef");
  await worker.saved(lease, "a.log", 3, "XY");
  assert.equal((await read(kit, job, 0, "a.log")).text, "abcXY");
  await worker.saved(lease, "a.log", 0, "new");
  assert.equal((await read(kit, job, 0, "a.log")).text, "new");
  await worker.saved(lease, "a.log", 10, "later");
  assert.deepEqual(await read(kit, job, 3, "a.log"), { from: 10, text: "later", over: false });
});

Deno.test("of a long log the start and the end are kept", async () => {
  await using kit = await AgentKit.make();
  const { worker, lease, job } = await running(kit);
  const piece = 512 * 1024;
  const { head, tail } = STREAM_LIMITS;
  const count = (head + tail) / piece + 6;
  for (let n = 0; n < count; n++) {
    await worker.saved(lease, "a.log", n * piece, String.fromCharCode(97 + n).repeat(piece));
  }
  const first = await read(kit, job, 0, "a.log");
  assert.equal(first.text.length, head);
  const next = await read(kit, job, head, "a.log");
  const kept = count * piece - tail;
  assert.equal(next.from, kept);
  assert.equal(next.text[0], String.fromCharCode(97 + kept / piece));
  const [stream] = await kit.kit.streams.list(job);
  assert.equal(sure(stream).size, count * piece);
});

Deno.test("only who holds the lease adds parts, within bounds", async () => {
  await using kit = await AgentKit.make();
  const { worker, lease, job } = await running(kit);
  const refused = (promise: Promise<unknown>, code: string) =>
    assert.rejects(promise, (error) => error instanceof SubletError && error.code === code);
  const other = await kit.worker("w2");
  await refused(other.saved(lease, "a.log", 0, "x"), "stale_lease");
  await refused(worker.saved(lease, SESSION_STREAM, STREAM_LIMITS.session, "x"), "too_large");
  const blob = (await kit.put("y")).slice(0, -4) + "aaaa";
  await refused(worker.saved(lease, "a.log", 0, "x", { blob }), "missing_blobs");
  await worker.report(lease, finished({}));
  await refused(worker.saved(lease, "a.log", 0, "x"), "stale_lease");
  assert.deepEqual(await kit.kit.streams.list(job), []);
});

Deno.test("a part whose blob is not as long as was said is a gap", async () => {
  await using kit = await AgentKit.make();
  const { worker, lease, job } = await running(kit);
  await worker.saved(lease, "a.log", 0, "abc");
  await worker.saved(lease, "a.log", 3, "d", { bytes: 100 });
  await worker.saved(lease, "a.log", 103, "e");
  assert.deepEqual(await read(kit, job, 0, "a.log"), { from: 0, text: "abc", over: false });
  assert.deepEqual(await read(kit, job, 3, "a.log"), { from: 103, text: "e", over: false });
});

Deno.test("thousands of small parts become few, and read the same", async () => {
  await using kit = await AgentKit.make();
  const { worker, lease, job } = await running(kit);
  let text = "";
  for (let n = 0; n < 640; n++) {
    const line = `line ${n}\n`;
    await worker.saved(lease, SESSION_STREAM, text.length, line);
    text += line;
  }
  const count = async () =>
    sure(
      await kit.kit.db.read((tx) =>
        tx.get<{ n: number }>("SELECT count(*) AS n FROM stream_parts")
      ),
    ).n;
  await until("the parts are joined", async () => await count() < 320);
  await kit.kit.streams.idle();
  let found = "";
  while (found.length < text.length) found += (await read(kit, job, found.length)).text;
  assert.equal(found, text);
});

Deno.test("only small parts that follow one another are joined", () => {
  const part = (position: number, bytes: number) => ({ position, bytes, blob: "b" as never });
  assert.deepEqual(
    groups([
      part(0, 1),
      part(1, 2),
      part(5, 1),
      part(6, 100_000),
      part(100_006, 1),
      part(100_007, 1),
    ])
      .map((group) => group.map(({ position }) => position)),
    [[0, 1], [100_006, 100_007]],
  );
});

Deno.test("a lost attempt's log stays, and the next one's is shown", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const first = await worker.acquire();
  await worker.saved(first.lease, "a.log", 0, "first");
  await kit.engine.lost(worker.caller, first.lease, "full");
  assert.equal((await read(kit, sure(agent.job), 0, "a.log")).text, "first");
  let second = null;
  while (second === null) second = await worker.acquire().catch(() => null);
  await worker.saved(second.lease, "a.log", 0, "second");
  assert.equal((await read(kit, sure(agent.job), 0, "a.log")).text, "second");
  const rows = await kit.kit.db.read((tx) => tx.all("SELECT lease FROM streams"));
  assert.equal(rows.length, 2);
});
