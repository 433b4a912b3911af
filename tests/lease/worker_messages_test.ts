/** @module A worker under a virtual clock: messages and their cursor. */

import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import type { Message } from "../../lib/lease/wire.ts";
import { settle } from "../kit/virtual_clock.ts";
import { Bench, unreachable } from "./worker_kit.ts";

function prompt(id: number, lease = 1): Message {
  return { kind: "prompt", id, lease, prompt: { id: id + 1000, text: `text ${id}` } };
}

function cursors(bench: Bench): unknown[] {
  return bench.server.of("messages").map((args) => args["after"]);
}

Deno.test("the first long-poll starts at the registration's cursor and waits as long as it may", async () => {
  const bench = new Bench();
  bench.server.cursor = 41;
  const started = await bench.start();
  assert.deepEqual(bench.server.of("messages"), [{ after: 41, wait: 25 }]);
  await bench.clock.advance(25_000);
  assert.deepEqual(cursors(bench), [41, 41]);
  await started.close(bench);
});

Deno.test("work makes the worker acquire at once", async () => {
  const bench = new Bench();
  const started = await bench.start();
  await bench.clock.advance(3_000);
  bench.server.queue.push(await bench.grant(1));
  bench.server.post({ kind: "work", id: 7 });
  await settle();
  assert.equal(bench.runner.job(1).how, "run");
  assert.equal(cursors(bench).at(-1), 7);
  await started.close(bench);
});

Deno.test("after work that has no place in the feed the worker reads again within 10 ms, each time", async () => {
  const bench = new Bench();
  bench.server.on["messages"] = () => Promise.resolve([{ kind: "work", id: 0 }]);
  const started = await bench.start();
  await settle();
  const before = cursors(bench).length;
  for (let told = 1; told <= 8; told++) {
    await bench.clock.advance(10);
    await settle();
    assert.equal(cursors(bench).length, before + told);
  }
  await started.close(bench);
});

Deno.test("work that arrives during an acquire is acquired for after it", async () => {
  const bench = new Bench();
  let answer: (reason: string) => void = () => {};
  bench.server.on["acquire"] = () => new Promise((resolve) => answer = resolve);
  const started = await bench.start();
  bench.server.post({ kind: "work", id: 1 });
  await settle();
  assert.equal(bench.server.of("acquire").length, 1);
  bench.server.on = {};
  answer("nothing");
  await settle();
  assert.equal(bench.server.of("acquire").length, 2);
  await started.close(bench);
});

Deno.test("a revoke stops the job that it names, and no other", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1), await bench.grant(2));
  const started = await bench.start();
  bench.server.post({ kind: "revoke", id: 1, lease: 2 }, { kind: "revoke", id: 2, lease: 99 });
  await settle();
  assert.equal(bench.runner.job(1).control.stop.aborted, false);
  assert.equal(bench.runner.job(2).control.stop.aborted, true);
  assert.deepEqual(bench.server.of("report").map((args) => args["lease"]), [2]);
  await started.close(bench);
});

Deno.test("a prompt for a job that takes none is answered so, by the message's id", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  bench.server.post(prompt(5));
  await settle();
  const [answer] = bench.server.of("queued");
  assert.equal(answer?.["message"], 5);
  assert.match(String(answer?.["error"]), /does not run on this worker, or takes no prompts/);
  assert.equal(cursors(bench).at(-1), 5);
  await started.close(bench);
});

Deno.test("the cursor never passes a prompt whose outcome the server does not know", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const delivered: string[] = [];
  const started = await bench.start({
    prompt: (_lease, text) => {
      delivered.push(text);
      return Promise.resolve(null);
    },
  });
  bench.server.on["queued"] = () => Promise.reject(unreachable());
  bench.server.post({ kind: "work", id: 3 }, prompt(5), { kind: "work", id: 9 });
  await bench.clock.advance(30_000);
  assert.equal(cursors(bench).at(-1), 4);
  assert.deepEqual(delivered, ["text 5"], "read again, delivered once");
  bench.server.on = {};
  await bench.clock.advance(6_000);
  assert.equal(cursors(bench).at(-1), 9);
  assert.deepEqual(delivered, ["text 5"]);
  assert.deepEqual(bench.server.of("queued").at(-1), { message: 5, error: null });
  await started.close(bench);
});

Deno.test("a prompt that has the id of another one, as after a restore of the database, is delivered", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const texts: string[] = [];
  const prompt = (_lease: number, text: string) => {
    texts.push(text);
    return Promise.resolve(null);
  };
  const started = await bench.start({ prompt });
  bench.server.on["queued"] = () => Promise.reject(new SubletError("unreachable", "nobody"));
  bench.server.post({ kind: "prompt", id: 5, lease: 1, prompt: { id: 1, text: "before" } });
  await bench.clock.advance(1_000);
  bench.server.mail.length = 0;
  bench.server.on = {};
  bench.server.post({ kind: "prompt", id: 5, lease: 1, prompt: { id: 2, text: "after" } });
  await bench.clock.advance(30_000);
  assert.deepEqual(texts, ["before", "after"]);
  assert.equal(bench.server.of("queued").at(-1)?.["error"], null);
  await started.close(bench);
});

Deno.test("a prompt from behind the cursor, as after a restore, is delivered once though its answer is lost", async () => {
  const bench = new Bench();
  bench.server.cursor = 100;
  bench.server.queue.push(await bench.grant(1));
  let lost = 2;
  bench.server.on["queued"] = () => {
    if (lost-- > 0) throw unreachable();
  };
  bench.server.on["messages"] = async () => {
    if (bench.runner.jobs.length > 0 && lost >= 0) return [prompt(5)];
    await bench.clock.sleep(lost >= 0 ? 100 : 25_000);
    return [];
  };
  const texts: string[] = [];
  const deliver = (_lease: number, text: string) => {
    texts.push(text);
    return Promise.resolve(null);
  };
  const started = await bench.start({ prompt: deliver });
  await bench.clock.advance(20_000);
  assert.equal(bench.server.of("queued").length, 3);
  assert.deepEqual(texts, ["text 5"]);
  await started.close(bench);
});

Deno.test("an unanswered prompt is not read again in a tight loop", async () => {
  const bench = new Bench();
  bench.server.on["queued"] = () => Promise.reject(unreachable());
  const started = await bench.start();
  bench.server.post(prompt(5));
  await bench.clock.advance(60_000);
  assert.ok(cursors(bench).length < 25, String(cursors(bench).length));
  await started.close(bench);
});

Deno.test("an answer to a prompt that was not this worker's is forgotten", async () => {
  const bench = new Bench();
  bench.server.on["queued"] = () => Promise.reject(new SubletError("not_addressed", "not yours"));
  const started = await bench.start();
  bench.server.post(prompt(5));
  await settle();
  assert.equal(cursors(bench).at(-1), 5);
  await started.close(bench);
});

Deno.test("a delivery that fails is answered with its reason", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start({ prompt: () => Promise.reject(new Error("it is deaf")) });
  bench.server.post(prompt(5));
  await settle();
  assert.deepEqual(bench.server.of("queued"), [{ message: 5, error: "it is deaf" }]);
  await started.close(bench);
});

Deno.test("a server that answers empty at once is not asked in a tight loop", async () => {
  const bench = new Bench();
  bench.server.on["messages"] = () => [];
  const started = await bench.start();
  await bench.clock.advance(60_000);
  assert.ok(cursors(bench).length < 25, String(cursors(bench).length));
  await started.close(bench);
});
