/** @module Rules of version control: merging, and bringing home what a job left in its checkout. */

import { type Bench, exists, fails, reads, type Rule, unknown } from "./check_bench.ts";
import type { Captured } from "./contract.ts";

/** A checkout of the first version in the replica, and a repository that its work goes home to. */
async function desk({ replica, supply, first, place }: Bench): Promise<void> {
  await replica.checkout(first, place, supply);
}

/** The versions that `captured` brings into the repo of record. */
async function landed({ record, cas, first }: Bench, { work }: Captured): Promise<string[]> {
  if (work === null) return [];
  const saved = await record.receive(cas, work, first);
  return saved.map(({ revision }) => revision);
}

/** Merging. */
export const MERGING: Rule[] = [
  ["two that agree merge into a version of both, without a checkout", async (bench) => {
    const { record, replica, supply, first, second, place, save, cas } = bench;
    await replica.checkout(first, place, supply);
    await save(place, { "c.txt": "three\n" });
    const captured = await replica.capture(cas, place, first);
    const [other = ""] = await landed(bench, captured);
    const merged = await record.merge(second, other, "Both");
    if (merged.kind !== "merged") return false;
    const { revision, subject } = merged.version;
    const held = await record.objects(revision, ["a.txt", "b.txt", "c.txt"]);
    return held.size === 3 && subject === "Both" && await record.contains(revision, other) &&
      await record.contains(revision, second) && (await record.head()).revision === second &&
      !await exists(`${record.path}/c.txt`);
  }],
  ["two that do not agree are told by path, and nothing is saved", async (bench) => {
    const { record, replica, supply, first, place, save, cas } = bench;
    const ours = await save(record.path, { "a.txt": "ours\n" });
    await replica.checkout(first, place, supply);
    await save(place, { "a.txt": "theirs\n" });
    const [other = ""] = await landed(bench, await replica.capture(cas, place, first));
    const merged = await record.merge(ours, other, "Both");
    return merged.kind === "conflicts" &&
      merged.conflicts.map(({ path, kind }) => `${path} ${kind}`).join() === "a.txt content" &&
      (await record.head()).revision === ours;
  }],
  ["what is held already is itself the merge", async ({ record, first, second }) => {
    const merged = await record.merge(second, first, "Both");
    return merged.kind === "merged" && merged.version.revision === second;
  }],
  ["merging what is not there, or no revision, is refused", async ({ record, first }) => {
    return await fails(record.merge(first, unknown(first), "m"), "not_found", "failed") &&
      await fails(record.merge(first, "--all", "m"), "invalid_request");
  }],
];

/** Bringing work home. */
export const WORK: Rule[] = [
  ["a checkout as it was made is unchanged, and brings nothing", async (bench) => {
    const { replica, cas, first, place } = bench;
    await desk(bench);
    const captured = await replica.capture(cas, place, first);
    return !await replica.changed(place, first) && captured.work === null &&
      captured.unsaved === null && captured.branches.length === 0 && captured.leftOutCount === 0;
  }],
  ["saved versions come home in their order, and as they are", async (bench) => {
    const { replica, cas, first, place, save } = bench;
    await desk(bench);
    const one = await save(place, { "c.txt": "1\n" });
    const two = await save(place, { "c.txt": "2\n" });
    const captured = await replica.capture(cas, place, first);
    return captured.work?.head === two && captured.unsaved === null && captured.bytes > 0 &&
      (await landed(bench, captured)).join() === `${one},${two}` &&
      await replica.changed(place, first);
  }],
  [
    "work that was not saved comes as one more version, and the checkout is left as it is",
    async (bench) => {
      const { replica, record, cas, first, place, save } = bench;
      await desk(bench);
      const one = await save(place, { "c.txt": "1\n" });
      await Deno.writeTextFile(`${place}/new.txt`, "new\n");
      await Deno.remove(`${place}/a.txt`);
      const captured = await replica.capture(cas, place, first, { message: "Left over" });
      const [kept, unsaved = ""] = await landed(bench, captured);
      const held = await record.objects(unsaved, ["a.txt", "c.txt", "new.txt"]);
      return kept === one && captured.unsaved?.revision === unsaved &&
        captured.unsaved.subject === "Left over" && held.size === 2 && !held.has("a.txt") &&
        await reads(`${place}/new.txt`, "new\n") && !await exists(`${place}/a.txt`);
    },
  ],
  ["capturing again brings the same files", async (bench) => {
    const { replica, cas, first, place } = bench;
    await desk(bench);
    await Deno.writeTextFile(`${place}/new.txt`, "new\n");
    const one = await replica.capture(cas, place, first);
    const two = await replica.capture(cas, place, first);
    return one.unsaved !== null && one.unsaved.tree === two.unsaved?.tree;
  }],
  ["what was put there from elsewhere is no work", async (bench) => {
    const { replica, cas, first, place } = bench;
    await desk(bench);
    await Deno.mkdir(`${place}/data`);
    await Deno.writeTextFile(`${place}/data/x`, "input");
    const ignore = ["data"];
    return !await replica.changed(place, first, { ignore }) &&
      (await replica.capture(cas, place, first, { ignore })).work === null &&
      await replica.changed(place, first);
  }],
  ["what a job's tool is to pass over is not saved with all the rest", async (bench) => {
    const { replica, record, cas, first, place, save } = bench;
    await desk(bench);
    await Deno.mkdir(`${place}/data`);
    await Deno.writeTextFile(`${place}/data/x`, "input");
    await replica.passOver(place, ["data"]);
    const saved = await save(place, { "c.txt": "1\n" });
    const captured = await replica.capture(cas, place, first);
    await landed(bench, captured);
    return captured.work?.head === saved &&
      (await record.untracked(saved, ["c.txt", "data/x"])).join() === "data/x" &&
      await fails(replica.passOver(place, ["../x"]), "unsafe_path");
  }],
  ["what is too large is named, and the rest comes", async (bench) => {
    const { replica, cas, first, place } = bench;
    await desk(bench);
    await Deno.writeTextFile(`${place}/large`, "x".repeat(100));
    await Deno.writeTextFile(`${place}/small`, "x");
    const captured = await replica.capture(cas, place, first, { maxFileBytes: 10 });
    return captured.leftOut.map(({ path }) => path).join() === "large" &&
      captured.leftOutCount === 1 && captured.unsaved !== null;
  }],
  ["what one job does to its checkout reaches no other", async (bench) => {
    const { replica, cas, first, place, save } = bench;
    await desk(bench);
    await replica.checkout(first, `${place}-2`);
    await save(place, { "c.txt": "1\n" });
    const other = await replica.capture(cas, `${place}-2`, first);
    await replica.discard(place);
    return other.work === null && await reads(`${place}-2/a.txt`, "one\n") &&
      !await replica.changed(`${place}-2`, first);
  }],
  ["another process finds the work too", async (bench) => {
    const { vcs, replica, cas, first, place, save } = bench;
    await desk(bench);
    const one = await save(place, { "c.txt": "1\n" });
    const again = await vcs.replica(replica.path);
    return (await again.capture(cas, place, first)).work?.head === one;
  }],
  [
    "a directory that checkout did not make is not_found",
    async ({ replica, cas, supply, first, scratch }) => {
      await replica.fetch(cas, [first], supply.ask);
      return await fails(replica.capture(cas, scratch, first), "not_found") &&
        await fails(replica.changed(scratch, first), "not_found") &&
        await fails(replica.capture(cas, "relative", first), "invalid_request");
    },
  ],
  ["a transfer whose head does not come is refused", async (bench) => {
    const { replica, record, cas, first, place, save } = bench;
    await desk(bench);
    await save(place, { "c.txt": "1\n" });
    const { work } = await replica.capture(cas, place, first);
    if (work === null) return false;
    return await fails(record.receive(cas, { ...work, head: unknown(first) }, first), "failed") &&
      await fails(record.receive(cas, { ...work, head: "HEAD" }, first), "invalid_request");
  }],
];
