/** @module Rules of version control: how versions are named, and what is known of them. */

import { exists, fails, type Rule, unknown } from "./check_bench.ts";
import type { Part } from "./contract.ts";

/** What a provider has words for. */
const PARTS: readonly Part[] = [
  "repo",
  "checkout",
  "save",
  "versions",
  "skip",
  "earlier",
  "old_files",
  "show",
  "read",
  "port",
  "code",
];

/** Naming versions. */
export const NAMING: Rule[] = [
  ["the head is the version that was saved last", async ({ record, second }) => {
    return (await record.head()).revision === second;
  }],
  ["a version is named by its revision, and equal trees are equal", async (bench) => {
    const { record, first, second, save } = bench;
    const third = await save(record.path, { "a.txt": "one\n", "b.txt": "two\n" });
    const [one, two, three] = [first, second, third].map((name) => record.version(name));
    return (await one)?.revision === first && (await two)?.tree === (await three)?.tree &&
      (await one)?.tree !== (await two)?.tree;
  }],
  ["a name of nothing is not_found, and one that could be an option is refused", async (bench) => {
    return await fails(bench.record.version("no-such-version"), "not_found") &&
      await fails(bench.record.version("--all"), "invalid_request") &&
      await fails(bench.record.version("a\nb"), "invalid_request");
  }],
  ["history is newest first and bounded", async ({ record, first, second }) => {
    const all = (await record.history(9)).map(({ revision }) => revision);
    return all.join() === `${second},${first}` && (await record.history(1)).length === 1;
  }],
  ["has tells those that are here", async ({ record, first }) => {
    const found = await record.has([unknown(first), first]);
    return found.size === 1 && found.has(first);
  }],
  ["contains is descent", async ({ record, first, second }) => {
    return await record.contains(second, first) && !await record.contains(first, second);
  }],
  ["untracked tells the paths that a version does not hold", async ({ record, first, second }) => {
    const names = ["b.txt", "a.txt", "c"];
    return (await record.untracked(first, names)).join() === "b.txt,c" &&
      (await record.untracked(second, names)).join() === "c";
  }],
  ["objects are equal where content is, and only what is held has one", async (bench) => {
    const { record, first, second } = bench;
    const [one, two] = [
      await record.objects(first, ["a.txt", "b.txt"]),
      await record.objects(second, ["a.txt", "b.txt"]),
    ];
    return one.size === 1 && two.size === 2 && one.get("a.txt") === two.get("a.txt") &&
      two.get("a.txt") !== two.get("b.txt");
  }],
  ["the root of a checkout is its main one, and of no checkout null", async (bench) => {
    const { vcs, record, second, place, scratch } = bench;
    await record.checkout(second, place);
    return await vcs.root(place) === record.path && await vcs.root(scratch) === null &&
      await fails(vcs.open(scratch), "not_found");
  }],
  ["the root of what no provider made is null, and its identity is not_found", async (bench) => {
    const { vcs, scratch, record } = bench;
    return await vcs.root(`${scratch}/nowhere`) === null &&
      await fails(vcs.identity(scratch), "not_found") &&
      await vcs.identity(record.path) === await vcs.identity(record.path);
  }],
  ["it has words for every passage, and says whether it works here", async ({ vcs }) => {
    const checks = await vcs.checks();
    return PARTS.every((part) => vcs.prompt(part).trim() !== "") && checks.length > 0 &&
      checks.every(({ ok, name, detail }) => ok && name !== "" && detail !== "");
  }],
  ["what is kept under a prefix is listed by number", async ({ record, first, second }) => {
    await record.keep(second, "refs/sublet/1/r1/10");
    await record.keep(first, "refs/sublet/1/r1/2");
    await record.keep(first, "refs/sublet/1/r10/1");
    const kept = await record.kept("refs/sublet/1/r1/");
    return kept.map(({ revision }) => revision).join() === `${first},${second}` &&
      (await record.kept("refs/sublet/2/")).length === 0 &&
      await fails(record.keep(first, "HEAD"), "invalid_request") &&
      await fails(record.kept("refs/sublet/1"), "invalid_request") &&
      await fails(record.keep(unknown(first), "refs/sublet/1/r1/3"), "failed", "not_found");
  }],
  ["versions between two are oldest first, without the one they start from", async (bench) => {
    const { record, first, second, save } = bench;
    const third = await save(record.path, { "c.txt": "three\n" });
    const saved = await record.saved(first, third);
    const newest = await record.saved(first, third, 1);
    return saved.map(({ revision }) => revision).join() === `${second},${third}` &&
      newest.map(({ revision }) => revision).join() === third &&
      saved.every(({ skip, notes, recovered }) =>
        !skip && notes.length === 0 && recovered === null
      ) &&
      (await record.saved(third, third)).length === 0;
  }],
  [
    "a directory becomes a repository of all its files, and of one its own files are saved",
    async (bench) => {
      const { vcs, scratch } = bench;
      const path = `${scratch}/made`;
      await Deno.mkdir(path);
      for (const name of ["mine", "left.tmp"]) await Deno.writeTextFile(`${path}/${name}`, "1");
      const options = { summary: "Begin", owned: ["own"], ignore: ["*.tmp"] };
      const saved = await vcs.init(path, { ...options, owned: [] });
      const repository = await vcs.open(path);
      const start = await repository.head();
      await Deno.writeTextFile(`${path}/own`, "1");
      await Deno.writeTextFile(`${path}/mine`, "2");
      const more = await vcs.init(path, options);
      const left = await repository.untracked((await repository.head()).revision, [
        "own",
        "left.tmp",
      ]);
      const both = await repository.objects(start.revision, ["mine"]);
      const after = await repository.objects((await repository.head()).revision, ["mine"]);
      return start.subject === "Begin" && saved.includes("mine") && !saved.includes("left.tmp") &&
        more.join() === "own" && left.join() === "left.tmp" &&
        both.get("mine") === after.get("mine") &&
        (await vcs.init(path, options)).length === 0;
    },
  ],
  ["a clone has what it was made of, and is made where nothing is", async (bench) => {
    const { vcs, record, second, scratch } = bench;
    const clone = await vcs.clone(record.path, `${scratch}/copy/of`);
    return (await clone.head()).revision === second &&
      await fails(vcs.clone(record.path, `${scratch}/copy/of`), "conflict") &&
      await fails(vcs.clone(`${scratch}/nowhere`, `${scratch}/copy/none`), "failed", "not_found") &&
      !await exists(`${scratch}/copy/none`) &&
      await fails(vcs.clone("--option", `${scratch}/copy/none`), "invalid_request");
  }],
];
