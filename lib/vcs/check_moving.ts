/** @module Rules of version control: how versions move between machines, and how their files are put somewhere. */

import { exists, fails, reads, type Rule, unknown } from "./check_bench.ts";

/** Moving versions. */
export const MOVING: Rule[] = [
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

/** Files of versions. */
export const FILES: Rule[] = [
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
