import assert from "node:assert/strict";
import { UseLock } from "../../lib/vcs/lock.ts";
import { failure } from "./kit.ts";

/** A body that says when it starts, and ends when it is told. */
function body(name: string, log: string[]) {
  const end = Promise.withResolvers<void>();
  return {
    end: () => end.resolve(),
    run: async () => {
      log.push(`+${name}`);
      await end.promise;
      log.push(`-${name}`);
    },
  };
}

const turn = () => new Promise((resolve) => setTimeout(resolve));

Deno.test("many share, one alone waits for all of them, and those after it wait for it", async () => {
  const [lock, log]: [UseLock, string[]] = [new UseLock(), []];
  const [a, b, alone, c] = ["a", "b", "alone", "c"].map((name) => body(name, log));
  assert.ok(a && b && alone && c);
  const done = [
    lock.shared(a.run),
    lock.shared(b.run),
    lock.exclusive(alone.run),
    lock.shared(c.run),
  ];
  await turn();
  assert.deepEqual(log, ["+a", "+b"]);
  a.end();
  await turn();
  assert.deepEqual(log.splice(0), ["+a", "+b", "-a"]);
  b.end();
  await turn();
  assert.deepEqual(log.splice(0), ["-b", "+alone"]);
  alone.end();
  c.end();
  await Promise.all(done);
  assert.deepEqual(log, ["-alone", "+c", "-c"]);
});

Deno.test("a body that throws lets the next one in", async () => {
  const lock = new UseLock();
  const fails = lock.exclusive(() => Promise.reject(new Error("no")));
  const next = lock.shared(() => Promise.resolve("in"));
  assert.equal((await failure(fails)).message, "no");
  assert.equal(await next, "in");
});

Deno.test("who is cancelled while waiting leaves, and does not hold up those behind", async () => {
  const [lock, log]: [UseLock, string[]] = [new UseLock(), []];
  const first = body("first", log);
  const holding = lock.shared(first.run);
  const cancel = new AbortController();
  const alone = failure(lock.exclusive(() => Promise.resolve(), cancel.signal));
  const behind = lock.shared(() => Promise.resolve("in"));
  cancel.abort(new Error("gone"));
  assert.equal((await alone).message, "gone");
  assert.equal(await behind, "in");
  first.end();
  await holding;
  const late = await failure(lock.shared(() => Promise.resolve(), cancel.signal));
  assert.equal(late.message, "gone");
});
