import assert from "node:assert/strict";
import { Rig, settle } from "./engine_kit.ts";

Deno.test("a long-poll with nothing ends empty after its wait, and not before", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  let ended = false;
  const poll = worker.messages(0, 10).then((found) => {
    ended = true;
    return found;
  });
  await rig.clock.advance(9999);
  assert.equal(ended, false);
  await rig.clock.advance(1);
  assert.deepEqual(await poll, []);
  assert.deepEqual(await worker.messages(0, 0), []);
});

Deno.test("a parked long-poll costs no query", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  await worker.messages(0, 0);
  let reads = 0;
  const read = rig.db.read.bind(rig.db);
  const write = rig.db.write.bind(rig.db);
  rig.db.read = (body) => (reads++, read(body));
  rig.db.write = (body) => (reads++, write(body));
  const poll = worker.messages(0, 25);
  await rig.clock.advance(9_000);
  assert.equal(reads, 0);
  await rig.clock.advance(16_000);
  assert.deepEqual(await poll, []);
});

Deno.test("a message wakes the long-poll of its worker and of no other", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const [a, b] = [await rig.joined("a"), await rig.joined("b")];
  const lease = await a.take();
  const polls = [a.messages(0, 20), b.messages(0, 20)];
  await settle();
  await rig.engine.cancelJob(job, "no");
  assert.deepEqual(await polls[0], [{ kind: "revoke", id: 1, lease }]);
  await rig.clock.advance(20_000);
  assert.deepEqual(await polls[1], []);
});

Deno.test("a message is read again until the cursor has passed it, also after a restart", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  await rig.engine.drain("w", "maintenance");
  const drain = [{ kind: "drain", id: 1 }];
  assert.deepEqual(await worker.messages(0, 5), drain);
  assert.deepEqual(await worker.messages(0, 5), drain);
  await rig.restart();
  assert.equal((await worker.register()).cursor, 0);
  assert.deepEqual(await worker.messages(0, 5), drain);
  assert.deepEqual(await worker.messages(1, 0), []);
  await rig.restart();
  assert.equal((await worker.register()).cursor, 1);
  assert.deepEqual(await worker.messages(1, 0), []);
});

Deno.test("a new worker starts after the newest message", async () => {
  await using rig = await Rig.make();
  await rig.joined("w");
  await rig.engine.drain("w");
  const { cursor } = await rig.worker("v").register();
  assert.equal(cursor, 1);
});

Deno.test("a prompt comes until it is answered, and its answer counts once", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  await assert.rejects(rig.engine.prompt(job, 5, "hello"), { code: "conflict" });
  const lease = await worker.take();
  const id = await rig.engine.prompt(job, 5, "hello");
  const prompt = { kind: "prompt", id, lease, prompt: { id: 5, text: "hello" } };
  assert.deepEqual(await worker.messages(0, 1), [prompt]);
  assert.deepEqual(await worker.messages(id - 1, 1), [prompt]);
  await rig.engine.queued(worker.caller, id, null);
  await rig.engine.queued(worker.caller, id, "again, otherwise");
  assert.deepEqual(await worker.messages(0, 0), []);
  const rows = await rig.db.read((tx) => tx.all("SELECT error FROM lease_messages"));
  assert.equal(rows[0]?.error, null);
});

Deno.test("an answer to what is no prompt of that worker is not addressed", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const [a, b] = [await rig.joined("a"), await rig.joined("b")];
  await a.take();
  const id = await rig.engine.prompt(job, 1, "x");
  await rig.engine.cancelJob(job, "no");
  for (const [worker, message] of [[b, id], [a, id + 1], [a, 99], [a, -1]] as const) {
    await assert.rejects(rig.engine.queued(worker.caller, message, null), {
      code: "not_addressed",
    });
  }
});

Deno.test("a page holds at most a hundred messages, oldest first", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  await worker.take();
  for (let n = 1; n <= 130; n++) await rig.engine.prompt(job, n, "x");
  const page = await worker.messages(0, 1);
  assert.deepEqual(page.map(({ id }) => id), Array.from({ length: 100 }, (_, n) => n + 1));
  for (const { id } of page) await rig.engine.queued(worker.caller, id, null);
  assert.equal((await worker.messages(100, 1)).length, 30);
});

Deno.test("a cursor from before a restored backup is no error, and later messages come after it", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await rig.engine.cancelJob(job, "before its first poll");
  const found = await worker.messages(500, 1);
  assert.deepEqual(found, [{ kind: "revoke", id: 1, lease }]);
  assert.deepEqual(await worker.messages(500, 0), []);
  await rig.engine.drain("w");
  assert.deepEqual(await worker.messages(500, 1), [{ kind: "drain", id: 501 }]);
  assert.deepEqual(await worker.messages(501, 0), []);
  assert.deepEqual(await worker.messages(2 ** 50, 0), [], "one that is beyond belief");
  assert.equal((await worker.register()).cursor, 501);
});

Deno.test("a long-poll ends at once when its caller leaves, when another comes, and when the engine closes", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  const leaving = new AbortController();
  const first = worker.messages(0, 25, leaving.signal);
  await settle();
  leaving.abort();
  assert.deepEqual(await first, []);
  const second = worker.messages(0, 25);
  await settle();
  const third = worker.messages(0, 25);
  assert.deepEqual(await second, []);
  await settle();
  const closed = rig.engine.close();
  assert.deepEqual(await third, []);
  await closed;
  await assert.rejects(worker.messages(0, 25), { code: "unavailable" });
  assert.equal(rig.clock.timers, 0, "nothing is left behind");
});

Deno.test("a resume takes back a drain that the worker has not read", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  await rig.engine.drain("w");
  assert.deepEqual((await worker.messages(0, 0)).map(({ kind }) => kind), ["drain"]);
  await rig.engine.resume("w");
  assert.deepEqual(await worker.messages(0, 0), []);
  await rig.engine.drain("w");
  assert.deepEqual((await worker.messages(0, 0)).map(({ kind }) => kind), ["drain"]);
});
