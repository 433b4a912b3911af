/** @module Which process of a worker this is: one at a time, and what the next needs to know of the last. */

import assert from "node:assert/strict";
import { type Ids, isError, nullLog } from "../../lib/home/mod.ts";
import { lockKey, nextIncarnation, takeWorker } from "../../lib/lease/machine/incarnation.ts";
import { TempDir } from "../kit/mod.ts";

/** Ids `process-1`, `process-2`… */
function numbered(): Ids {
  let count = 0;
  return { uuid: () => `process-${++count}`, random: () => 0 };
}

Deno.test("the key of a token tells it from others and does not say it", () => {
  assert.notEqual(lockKey("slt_a"), lockKey("slt_b"));
  assert.match(lockKey("slt_a"), /^[0-9a-f]{16}$/);
});

Deno.test("one process at a time is the worker of a token in a home", async () => {
  await using dir = await TempDir.make();
  {
    using _first = takeWorker(dir.path, "a");
    assert.throws(() => takeWorker(dir.path, "a"), (error) => isError(error, "conflict"));
    using _other = takeWorker(dir.path, "b");
  }
  using _again = takeWorker(dir.path, "a");
});

Deno.test("a first process succeeds nobody, and the next the one that registered", async () => {
  await using dir = await TempDir.make();
  const ids = numbered();
  const first = await nextIncarnation(dir.path, "a", ids, nullLog);
  assert.deepEqual([first.id, first.succeeds], ["process-1", []]);
  await first.registered();
  const second = await nextIncarnation(dir.path, "a", ids, nullLog);
  assert.deepEqual([second.id, second.succeeds], ["process-2", ["process-1"]]);
});

Deno.test("processes that died before they knew of their registration are remembered, last first", async () => {
  await using dir = await TempDir.make();
  const ids = numbered();
  await (await nextIncarnation(dir.path, "a", ids, nullLog)).registered();
  await nextIncarnation(dir.path, "a", ids, nullLog);
  await nextIncarnation(dir.path, "a", ids, nullLog);
  const fourth = await nextIncarnation(dir.path, "a", ids, nullLog);
  assert.deepEqual(fourth.succeeds, ["process-1", "process-3", "process-2"]);
  await fourth.registered();
  const fifth = await nextIncarnation(dir.path, "a", ids, nullLog);
  assert.deepEqual(fifth.succeeds, ["process-4"]);
});

Deno.test("a file that was damaged costs the succession alone, and is mended", async () => {
  await using dir = await TempDir.make();
  const ids = numbered();
  await (await nextIncarnation(dir.path, "a", ids, nullLog)).registered();
  await Deno.writeTextFile(dir.join("worker-a.json"), "{");
  const events: string[] = [];
  const second = await nextIncarnation(dir.path, "a", ids, {
    event: (event) => void events.push(event),
  });
  assert.deepEqual(second.succeeds, []);
  assert.deepEqual(events, ["worker.incarnation_unread"]);
  await second.registered();
  const third = await nextIncarnation(dir.path, "a", ids, nullLog);
  assert.deepEqual(third.succeeds, ["process-2"]);
});

Deno.test("processes that never get through do not let the file grow", async () => {
  await using dir = await TempDir.make();
  const ids = numbered();
  await (await nextIncarnation(dir.path, "a", ids, nullLog)).registered();
  for (let i = 0; i < 40; i++) await nextIncarnation(dir.path, "a", ids, nullLog);
  const last = await nextIncarnation(dir.path, "a", ids, nullLog);
  assert.equal(last.succeeds[0], "process-1");
  assert.equal(last.succeeds.length, 16);
});
