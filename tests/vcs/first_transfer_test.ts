import assert from "node:assert/strict";
import type { Cas, Cid } from "../../lib/cas/mod.ts";
import { isError, type Log, systemClock } from "../../lib/home/mod.ts";
import {
  type FirstTransferStore,
  memoryTransfers,
  type Repository,
  Transfers,
} from "../../lib/vcs/mod.ts";
import { until } from "../kit/mod.ts";
import { Bench, commandOf, failure, type Work } from "./kit.ts";

const LONG = 60_000;

interface Setting {
  readonly bench: Bench;
  readonly work: Work;
  readonly record: Repository;
  readonly head: string;
  readonly store: FirstTransferStore;
  readonly transfers: Transfers;
  readonly lost: Set<Cid>;
  /** A new server process over the same store. */
  restart(): Transfers;
  /** How many packs git wrote. */
  packs(): number;
}

/** The calls of `cas` as plain functions, so that a test can replace some. */
function storeOf(cas: Cas): Cas {
  return {
    has: (cid) => cas.has(cid),
    missing: (cids) => cas.missing(cids),
    put: (data) => cas.put(data),
    get: (cid) => cas.get(cid),
    putStream: (source, limits) => cas.putStream(source, limits),
    getStream: (cid, limits) => cas.getStream(cid, limits),
    putFile: (path) => cas.putFile(path),
    getFile: (cid, path) => cas.getFile(cid, path),
  };
}

async function setting(bench: Bench): Promise<Setting> {
  const { work, record } = await bench.record();
  const noise = crypto.getRandomValues(new Uint8Array(20_000));
  const head = await work.commit({ "noise.bin": noise });
  const store = memoryTransfers();
  const lost = new Set<Cid>();
  const cas: Cas = {
    ...storeOf(bench.cas),
    has: async (cid) => !lost.has(cid) && await bench.cas.has(cid),
  };
  const log: Log = { event: (event, fields = {}) => void bench.events.push({ event, fields }) };
  const restart = () =>
    new Transfers({ cas, clock: systemClock, log, store, open: () => bench.vcs.open(work.path) });
  return {
    bench,
    work,
    record,
    head,
    store,
    transfers: restart(),
    lost,
    restart,
    packs: () => bench.calls.filter((spec) => commandOf(spec) === "pack-objects").length,
  };
}

/** Whether a fresh replica that takes `blobs` has `revision`. */
async function gives(bench: Bench, blobs: readonly Cid[] | null, revision: string) {
  const replica = await bench.replica(`clones/${crypto.randomUUID()}`);
  await replica.fetch(bench.cas, [revision], () => Promise.resolve(blobs ?? []));
  assert.deepEqual(await replica.has([revision]), new Set([revision]));
}

Deno.test("a worker that has nothing gets the whole history as one blob, built once for all", async () => {
  await using bench = await Bench.make();
  const { transfers, head, packs, restart } = await setting(bench);
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => transfers.send(1, [head], [], LONG)),
  );
  for (const blobs of answers) assert.deepEqual(blobs, answers[0]);
  assert.equal(answers[0]?.length, 1);
  assert.equal(packs(), 1);
  await gives(bench, answers[0] ?? null, head);
  assert.deepEqual(await restart().send(1, [head], [], 0), answers[0], "remembered");
});

Deno.test("what is newer comes as a second blob", async () => {
  await using bench = await Bench.make();
  const { transfers, work, head } = await setting(bench);
  const [first] = await transfers.send(1, [head], [], LONG) ?? [];
  const next = await work.commit({ "b.txt": "two\n" });
  const blobs = await transfers.send(1, [next], [], LONG);
  assert.equal(blobs?.length, 2);
  assert.equal(blobs[0], first);
  await gives(bench, blobs, next);
});

Deno.test("a commit that the head does not have is among what is newer", async () => {
  await using bench = await Bench.make();
  const { transfers, work, head } = await setting(bench);
  await work.git("checkout", "-q", "-b", "side", "main~1");
  const side = await work.commit({ "side.txt": "s\n" });
  await work.git("checkout", "-q", "main");
  const blobs = await transfers.send(1, [side], [], LONG);
  assert.equal(blobs?.length, 2);
  await gives(bench, blobs, side);
  assert.deepEqual(await transfers.send(1, [head], [], LONG), blobs.slice(0, 1));
});

Deno.test("null says that it is still being built, and the next call waits for it", async () => {
  await using bench = await Bench.make();
  const { transfers, head, packs } = await setting(bench);
  const go = Promise.withResolvers<void>();
  bench.before = async (spec) => {
    if (commandOf(spec) === "pack-objects") await go.promise;
  };
  assert.equal(await transfers.send(1, [head], [], 0), null);
  assert.equal(await transfers.send(1, [head], [], 1), null);
  const gone = new AbortController();
  const left = transfers.send(1, [head], [], LONG, gone.signal);
  gone.abort();
  assert.equal(await left, null, "a caller that went away");
  const waiting = transfers.send(1, [head], [], LONG);
  go.resolve();
  assert.equal((await waiting)?.length, 1);
  assert.equal(packs(), 1);
});

Deno.test("a failed build is told once with its cause, and built again by the call after", async () => {
  await using bench = await Bench.make();
  const { transfers, head } = await setting(bench);
  const go = Promise.withResolvers<void>();
  bench.before = async (spec) => {
    if (commandOf(spec) !== "pack-objects") return;
    await go.promise;
    throw new Error("the disk is full");
  };
  assert.equal(await transfers.send(1, [head], [], 0), null);
  go.resolve();
  const told = await until("the failure", async () => {
    try {
      await transfers.send(1, [head], [], 0);
      return null;
    } catch (error) {
      return error;
    }
  });
  assert.ok(isError(told, "not_sent"));
  assert.match(told.message, /the disk is full/);
  bench.before = () => {};
  assert.equal((await transfers.send(1, [head], [], LONG))?.length, 1);
});

Deno.test("callers who wait when a build fails are told at once, and nobody after them", async () => {
  await using bench = await Bench.make();
  const { transfers, head } = await setting(bench);
  bench.before = (spec) => {
    if (commandOf(spec) === "pack-objects") throw new Error("no");
  };
  const errors = await Promise.all(
    [1, 2, 3].map(() => failure(transfers.send(1, [head], [], LONG))),
  );
  for (const error of errors) assert.ok(isError(error, "not_sent"));
  bench.before = () => {};
  assert.equal((await transfers.send(1, [head], [], LONG))?.length, 1);
});

Deno.test("a first transfer that the CAS lost is built again", async () => {
  await using bench = await Bench.make();
  const { transfers, head, work, store, lost } = await setting(bench);
  const before = await transfers.send(1, [head], [], LONG);
  const next = await work.commit({ "b.txt": "two\n" });
  for (const blob of before ?? []) lost.add(blob);
  const after = await transfers.send(1, [next], [], LONG);
  assert.notDeepEqual(after, before);
  assert.equal((await store.recall(1))?.revision, next);
  await gives(bench, after, next);
});

Deno.test("it is built again once what is newer passes a quarter of it", async () => {
  await using bench = await Bench.make();
  const { transfers, head, work, store } = await setting(bench);
  await transfers.send(1, [head], [], LONG);
  const small = await work.commit({ "b.bin": crypto.getRandomValues(new Uint8Array(1_000)) });
  assert.equal((await transfers.send(1, [small], [], LONG))?.length, 2);
  assert.equal((await store.recall(1))?.revision, head, "not yet");
  const large = await work.commit({ "c.bin": crypto.getRandomValues(new Uint8Array(9_000)) });
  const two = await transfers.send(1, [large], [], LONG);
  assert.equal(two?.length, 2, "who asks now does not wait for it");
  await gives(bench, two, large);
  await until("the new one", async () => (await store.recall(1))?.revision === large);
  const one = await transfers.send(1, [large], [], LONG);
  assert.equal(one?.length, 1);
  await gives(bench, one, large);
});

Deno.test("a rebuild that fails harms nobody: the first transfer before it still serves", async () => {
  await using bench = await Bench.make();
  const { transfers, head, work } = await setting(bench);
  await transfers.send(1, [head], [], LONG);
  const large = await work.commit({ "c.bin": crypto.getRandomValues(new Uint8Array(9_000)) });
  let calls = 0;
  bench.before = (spec) => {
    if (commandOf(spec) === "pack-objects" && ++calls > 1) throw new Error("no");
  };
  const blobs = await transfers.send(1, [large], [], LONG);
  await until("the event", () => bench.events.some((e) => e.event === "vcs.first_transfer_failed"));
  assert.deepEqual(await transfers.send(1, [large], [], LONG), blobs);
});

Deno.test("a step that many workers ask for is packed once, and again when the CAS lost it", async () => {
  await using bench = await Bench.make();
  const { transfers, head, work, packs, lost } = await setting(bench);
  const next = await work.commit({ "b.txt": "two\n" });
  const all = await Promise.all(
    Array.from({ length: 10 }, () => transfers.send(1, [next], [head, "e".repeat(40)], 0)),
  );
  for (const blobs of all) assert.deepEqual(blobs, all[0]);
  assert.equal(packs(), 1);
  for (const blob of all[0] ?? []) lost.add(blob);
  await Promise.all([1, 2, 3].map(() => transfers.send(1, [next], [head], 0)));
  assert.ok(packs() > 1);
});

Deno.test("a worker whose commits the record does not know gets the whole history", async () => {
  await using bench = await Bench.make();
  const { transfers, head } = await setting(bench);
  const blobs = await transfers.send(1, [head], ["e".repeat(40)], LONG);
  await gives(bench, blobs, head);
  assert.deepEqual(blobs, await transfers.send(1, [head], [], 0));
});

Deno.test("commits that the record lacks are left out; when it has none of them it says so", async () => {
  await using bench = await Bench.make();
  const { transfers, head, packs } = await setting(bench);
  assert.equal((await transfers.send(1, [head, "f".repeat(40)], [], LONG))?.length, 1);
  const before = packs();
  for (const have of [[], [head]]) {
    const error = await failure(transfers.send(1, ["f".repeat(40)], have, LONG));
    assert.ok(isError(error, "not_sent"), String(error));
    assert.match(error.message, /does not hold commit f{40}/);
  }
  assert.equal(packs(), before, "nothing was packed for it");
  assert.deepEqual(await transfers.send(1, [head], [head], 0), []);
  assert.deepEqual(await transfers.send(1, [], [], 0), []);
});

Deno.test("a repo of record that is not there is `not_sent` with the reason", async () => {
  await using bench = await Bench.make();
  const { work } = await setting(bench);
  await Deno.remove(work.path, { recursive: true });
  const transfers = new Transfers({
    cas: bench.cas,
    clock: systemClock,
    log: { event: () => {} },
    store: memoryTransfers(),
    open: () => bench.vcs.open(work.path),
  });
  const error = await failure(transfers.send(1, ["a".repeat(40)], [], 0));
  assert.ok(isError(error, "not_sent"));
  assert.match(error.message, /no checkout of a git repository/);
});
