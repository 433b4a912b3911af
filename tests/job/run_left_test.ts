/** @module What a worker remembers of the jobs that it began. */

import assert from "node:assert/strict";
import { LeftJobs } from "../../lib/job/run_left.ts";
import { TempDir } from "../kit/mod.ts";

const TAG = "01234567-89ab-cdef-0123-456789abcdef";

Deno.test("a job that began is left until it is over, for its worker alone", async () => {
  await using dir = await TempDir.make("sublet-left-");
  const [ant, bee] = [new LeftJobs(dir.path, "ant"), new LeftJobs(dir.path, "bee")];
  assert.deepEqual(await ant.all(), []);
  const jobs = [10, 9].map((lease) => ({ lease, tag: TAG, place: `projects/1/measure/${lease}` }));
  for (const job of jobs) ant.began(job);
  assert.deepEqual((await new LeftJobs(dir.path, "ant").all()).map(({ lease }) => lease), [9, 10]);
  assert.deepEqual(await bee.all(), []);
  await ant.over(9);
  await ant.over(9);
  assert.deepEqual(await ant.all(), jobs.slice(0, 1));
});

Deno.test("a file that names no place beneath the home, or no tag, is passed over", async () => {
  await using dir = await TempDir.make("sublet-left-");
  const left = new LeftJobs(dir.path, "ant");
  left.began({ lease: 1, tag: TAG, place: "a/b" });
  for (
    const [lease, text] of [[2, `${TAG}\n../x`], [3, `*\na`], [4, ""], [5, `${TAG}\n/etc`]] as const
  ) {
    await Deno.writeTextFile(dir.join("begun", "ant", String(lease)), text);
  }
  await Deno.symlink("/etc/passwd", dir.join("begun", "ant", "6"));
  assert.deepEqual((await left.all()).map(({ lease }) => lease), [1]);
});
