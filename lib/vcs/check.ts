/** @module The contract of a version control provider, as a suite that every provider passes. */

import type { Cas } from "../cas/mod.ts";
import { type ErrorCode, isError, messageOf, SubletError } from "../home/mod.ts";
import type { Ask, Repository, Supply, Vcs } from "./contract.ts";

/** What the suite needs beside the provider. */
export interface VcsCheckOptions {
  /** A store that everybody shares. */
  readonly cas: Cas;
  /** An empty directory, absolute. */
  readonly scratch: string;
  /** Save `files`, path to text, as the next version of the checkout at `path`, made when it is missing; its revision. */
  save(path: string, files: Readonly<Record<string, string>>): Promise<string>;
}

/** What a rule gets: a repo of record with two versions, and a fresh replica of it. */
interface Bench extends VcsCheckOptions {
  readonly vcs: Vcs;
  readonly record: Repository;
  readonly replica: Repository;
  readonly first: string;
  readonly second: string;
  readonly supply: Supply & { readonly asked: string[][] };
  /** A path for a checkout. */
  readonly place: string;
}

type Rule = readonly [rule: string, keeps: (bench: Bench) => Promise<boolean>];

const fails = (work: Promise<unknown>, ...codes: ErrorCode[]) =>
  work.then(() => false, (error) => isError(error, ...codes));
const exists = (path: string) => Deno.lstat(path).then(() => true, () => false);
const reads = async (path: string, text: string) => await Deno.readTextFile(path) === text;
/** As long as a revision of the provider's, and no one's. */
const unknown = (like: string) => "f".repeat(like.length);

const NAMING: Rule[] = [
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
];

const MOVING: Rule[] = [
  ["a replica that was never filled has nothing, and says so", async ({ replica, first }) => {
    return (await replica.tips()).length === 0 && (await replica.has([first])).size === 0 &&
      await fails(replica.head(), "not_found");
  }],
  ["nothing beyond is null", async ({ record, cas, first, second }) => {
    return await record.send(cas, [first], [second]) === null &&
      await record.send(cas, [unknown(first)], []) === null;
  }],
  ["what one sends another takes, whole and then an increment", async (bench) => {
    const { record, replica, cas, first, second } = bench;
    const [whole, next] = [
      await record.send(cas, [first], []),
      await record.send(cas, [second], [first]),
    ];
    if (whole === null || next === null) return false;
    await replica.fetch(cas, [first], () => Promise.resolve([whole.blob]));
    const work = { blob: next.blob, head: second };
    const came = await replica.receive(cas, work, first);
    const again = await replica.receive(cas, work, first);
    return came.map(({ revision }) => revision).join() === second && again.length === 1 &&
      (await replica.has([first, second])).size === 2 &&
      (await cas.get(next.blob))?.length === next.bytes;
  }],
  ["a fetch asks for what is lacking alone, and not again", async (bench) => {
    const { replica, supply, cas, first, second } = bench;
    await replica.fetch(cas, [first], supply.ask);
    await replica.fetch(cas, [first, second], supply.ask);
    await replica.fetch(cas, [second, first], supply.ask);
    return supply.asked.map((asked) => asked.join()).join(";") === `${first};${second}`;
  }],
  ["a version that nobody has is not_found", async ({ replica, supply, cas, first }) => {
    return await fails(replica.fetch(cas, [unknown(first)], supply.ask), "not_found");
  }],
  ["a blob that is not there, or no transfer, stores nothing", async (bench) => {
    const { replica, record, cas, first } = bench;
    const junk = await cas.put(new TextEncoder().encode("no transfer"));
    const fetch = replica.fetch(cas, [first], () => Promise.resolve([junk]));
    return await fails(fetch, "failed") && (await replica.has([first])).size === 0 &&
      (await record.has([first])).size === 1;
  }],
  ["another object sees what a replica holds", async ({ vcs, replica, supply, first }) => {
    await replica.fetch(supply.cas, [first], supply.ask);
    return (await (await vcs.replica(replica.path)).has([first])).size === 1;
  }],
];

const FILES: Rule[] = [
  ["a checkout is the files of its version, in place of what was there", async (bench) => {
    const { replica, supply, first, second, place } = bench;
    await Deno.mkdir(place);
    await Deno.writeTextFile(`${place}/left`, "");
    await replica.checkout(second, place, supply);
    const two = !await exists(`${place}/left`) && await reads(`${place}/b.txt`, "two\n");
    await replica.checkout(first, place, supply);
    return two && await reads(`${place}/a.txt`, "one\n") && !await exists(`${place}/b.txt`);
  }],
  ["checkouts are listed until they are discarded, which is repeatable", async (bench) => {
    const { replica, supply, first, place, scratch } = bench;
    await replica.checkout(first, place, supply);
    const listed = (await replica.checkouts(scratch)).join() === place;
    await replica.discard(place);
    await replica.discard(place);
    return listed && !await exists(place) && (await replica.checkouts(scratch)).length === 0;
  }],
  ["checkouts at once do not disturb each other", async (bench) => {
    const { replica, supply, first, second, place } = bench;
    const places = Array.from({ length: 6 }, (_, i) => `${place}-${i}`);
    await Promise.all(places.map((at, i) => replica.checkout(i % 2 ? first : second, at, supply)));
    const right = await Promise.all(
      places.map(async (at, i) =>
        await reads(`${at}/a.txt`, "one\n") && await exists(`${at}/b.txt`) === (i % 2 === 0)
      ),
    );
    await Promise.all(places.map((at) => replica.discard(at)));
    return right.every((one) => one);
  }],
  ["a checkout of what is not here leaves nothing", async ({ record, first, place }) => {
    return await fails(record.checkout(unknown(first), place), "failed", "not_found") &&
      !await exists(place) && (await record.checkouts("/")).length === 0;
  }],
  ["a relative path, and what is no revision, are refused", async ({ record, first, place }) => {
    return await fails(record.checkout(first, "place"), "invalid_request") &&
      await fails(record.checkout("--force", place), "invalid_request");
  }],
  ["the repository itself is not discarded", async ({ record }) => {
    return await fails(record.discard(record.path), "invalid_request") && await exists(record.path);
  }],
];

/** Check `vcs` against the contract. Throws `failed` with every rule that it breaks. */
export async function checkVcs(vcs: Vcs, options: VcsCheckOptions): Promise<void> {
  const broken: string[] = [];
  for (const [i, [rule, keeps]] of [...NAMING, ...MOVING, ...FILES].entries()) {
    try {
      if (!await keeps(await benchOf(vcs, options, `${options.scratch}/${i}`))) broken.push(rule);
    } catch (error) {
      broken.push(`${rule} (${messageOf(error)})`);
    }
  }
  if (broken.length === 0) return;
  throw new SubletError("failed", `the provider breaks its contract:\n- ${broken.join("\n- ")}`);
}

async function benchOf(vcs: Vcs, options: VcsCheckOptions, scratch: string): Promise<Bench> {
  await Deno.mkdir(scratch);
  const first = await options.save(`${scratch}/record`, { "a.txt": "one\n" });
  const second = await options.save(`${scratch}/record`, { "b.txt": "two\n" });
  const record = await vcs.open(`${scratch}/record`);
  const replica = await vcs.replica(`${scratch}/clones/1`);
  const asked: string[][] = [];
  const ask: Ask = async (revisions, have) => {
    asked.push([...revisions]);
    const sent = await record.send(options.cas, revisions, have);
    return sent === null ? [] : [sent.blob];
  };
  const supply = { cas: options.cas, ask, asked };
  return {
    ...options,
    vcs,
    record,
    replica,
    first,
    second,
    supply,
    scratch,
    place: `${scratch}/w`,
  };
}
