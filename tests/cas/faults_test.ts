/**
 * @module What a failure of any one file operation, or of all from one on, leaves of a store: for each operation of each
 * call, what was there is there, what is visible is whole, and the call can be made again.
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import {
  type Cas,
  type Cid,
  cidOf,
  type Evictable,
  openDisk,
  openSqliteCas,
  type Tiered,
  type Upkeep,
} from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { openCache, tiersIn } from "./cached_kit.ts";
import { damageObject, leftovers } from "./disk_kit.ts";
import { Faults, type Way } from "./faults.ts";
import { damageRows, unfinished } from "./sqlite_kit.ts";

const filled = (length: number, seed: number) =>
  new Uint8Array(length).map((_, i) => Math.imul(i + seed, 2654435761) >>> 24);

const KEPT = [filled(800, 1), filled(200_000, 2)];
const HURT = [filled(900, 3), filled(200_001, 4)];
const SMALL = filled(700, 5);
const LARGE = filled(300_000, 6);
const DROPPED = filled(150_000, 7);
const ELSEWHERE = filled(160_000, 8);

type Store = Cas & Upkeep & Partial<Evictable & Tiered & AsyncDisposable>;

/** A provider, as this test uses it. */
interface Subject {
  readonly name: string;
  open(root: string): Promise<Store>;
  damage(root: string, cid: Cid): Promise<void>;
  /** What calls have left unfinished, once a store was opened that sweeps it. */
  unfinished(root: string): Promise<string[]>;
  /** Another look at what was stored: what the next process, or another machine, sees. */
  look(root: string): Promise<Store>;
}

const SUBJECTS: Subject[] = [
  {
    name: "disk",
    open: (root) => openDisk({ path: root }),
    damage: (root, cid) => damageObject(root, cid, "flipped"),
    unfinished: (root) => leftovers(root),
    look: (root) => openDisk({ path: root, sweepAfterMs: -1000 }),
  },
  {
    name: "sqlite",
    open: (root) => openSqliteCas({ path: `${root}/store.sqlite` }),
    damage: (root, cid) => damageRows(`${root}/store.sqlite`, cid, "flipped"),
    unfinished: (root) => unfinished(`${root}/store.sqlite`),
    look: (root) => openSqliteCas({ path: `${root}/store.sqlite`, sweepAfterMs: -1000 }),
  },
  {
    name: "cached",
    open: (root) => openCache(root, { localMaxBytes: 0 }),
    damage: (root, cid) => damageObject(tiersIn(root).local, cid, "flipped"),
    unfinished: async (root) => [
      ...await leftovers(tiersIn(root).local),
      ...await leftovers(tiersIn(root).remote),
    ],
    async look(root) {
      const { local, remote } = tiersIn(root);
      await using _swept = await openDisk({ path: local, cache: true, sweepAfterMs: -1000 });
      // What was acknowledged is on the remote.
      return await openDisk({ path: remote, sweepAfterMs: -1000 });
    },
  },
];

/** What is done while operations fail: it resolves when the call succeeded, and then its effect is checked. */
interface Call {
  readonly name: string;
  /** The one provider that it is for. */
  readonly only?: string;
  run(store: Store, scratch: string): Promise<unknown>;
  /** Whether it did what it says. */
  done(store: Store, scratch: string): Promise<boolean>;
}

const same = (a: Uint8Array | null, b: Uint8Array) => a !== null && Buffer.compare(a, b) === 0;
const stream = (data: Uint8Array) => new Blob([data.slice()]).stream();
const has = async (store: Store, data: Uint8Array) => same(await store.get(cidOf(data)), data);
const keptLarge = KEPT[1] as Uint8Array;
const [hurtSmall, hurtLarge] = HURT as [Uint8Array, Uint8Array];

const CALLS: Call[] = [
  {
    name: "put",
    run: (store) => store.put(SMALL),
    done: (store) => has(store, SMALL),
  },
  {
    name: "putStream",
    run: (store) => store.putStream(stream(LARGE), { expectedCid: cidOf(LARGE) }),
    done: (store) => has(store, LARGE),
  },
  {
    name: "putFile",
    run: (store, scratch) => store.putFile(`${scratch}/source`),
    done: (store) => has(store, LARGE),
  },
  {
    name: "put of a blob that is there",
    run: (store) => store.put(keptLarge),
    done: (store) => has(store, keptLarge),
  },
  {
    name: "repair",
    run: (store) => store.put(hurtSmall),
    done: (store) => has(store, hurtSmall),
  },
  {
    name: "repair of a large blob",
    run: (store) => store.putStream(stream(hurtLarge)),
    done: (store) => has(store, hurtLarge),
  },
  {
    name: "get",
    async run(store) {
      for (const data of KEPT) assert.ok(same(await store.get(cidOf(data)), data));
    },
    done: () => Promise.resolve(true),
  },
  {
    name: "getFile",
    async run(store, scratch) {
      assert.equal(await store.getFile(cidOf(keptLarge), `${scratch}/target`), keptLarge.length);
    },
    async done(_, scratch) {
      return same(await Deno.readFile(`${scratch}/target`), keptLarge);
    },
  },
  {
    name: "get of a damaged copy",
    only: "cached",
    async run(store) {
      for (const data of HURT) assert.ok(same(await store.get(cidOf(data)), data));
    },
    done: async (store) => {
      const found = await Promise.all(HURT.map((data) => store.integrity(cidOf(data))));
      return found.every((state) => state === "ok");
    },
  },
  {
    name: "get of what is elsewhere",
    only: "cached",
    async run(store) {
      assert.ok(same(await store.get(cidOf(ELSEWHERE)), ELSEWHERE));
    },
    done: (store) => has(store, ELSEWHERE),
  },
  {
    name: "evict",
    async run(store) {
      if (store.flush !== undefined) return await store.flush({ evict: true });
      assert.ok(await store.release?.(cidOf(DROPPED)));
    },
    // Of a cache the remote still has it.
    done: async (store) => store.flush !== undefined || await store.has(cidOf(DROPPED)) === false,
  },
];

async function prepare(subject: Subject, root: string): Promise<void> {
  const store = await subject.open(root);
  for (const data of [...KEPT, ...HURT, DROPPED]) await store.put(data);
  for (const data of HURT) await subject.damage(root, cidOf(data));
  if (subject.name === "cached") {
    await using there = await openDisk({ path: tiersIn(root).remote });
    await there.put(ELSEWHERE);
  }
  await store[Symbol.asyncDispose]?.();
}

/** A copy of the directory `from` at `to`. */
async function copyTree(from: string, to: string): Promise<void> {
  await Deno.mkdir(to, { recursive: true });
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    if (isDirectory) await copyTree(`${from}/${name}`, `${to}/${name}`);
    else await Deno.copyFile(`${from}/${name}`, `${to}/${name}`);
  }
}

/** Directories of a test: the same store, made anew for each attempt at the same path, and files besides. */
class Places {
  readonly root: string;
  readonly scratch: string;
  readonly #kept: string;

  constructor(directory: TempDir) {
    this.root = directory.join("root");
    this.scratch = directory.join("scratch");
    this.#kept = directory.join("kept");
  }

  async prepare(subject: Subject): Promise<void> {
    await prepare(subject, this.root);
    await copyTree(this.root, this.#kept);
    await Deno.mkdir(this.scratch);
  }

  async renew(): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
    await copyTree(this.#kept, this.root);
    await Deno.writeFile(`${this.scratch}/source`, LARGE);
    await Deno.writeTextFile(`${this.scratch}/target`, "as it was");
  }
}

async function checkStore(subject: Subject, root: string, acked: Uint8Array | null) {
  const store = await subject.look(root);
  const hurt = new Set(HURT.map(cidOf));
  for await (const cid of store.list()) {
    const found = await store.integrity(cid);
    assert.ok(found === "ok" || hurt.has(cid), `${cid} is ${found}`);
  }
  for (const data of KEPT) assert.ok(await has(store, data), "what was there is there");
  if (acked !== null) assert.ok(await has(store, acked), "what was acknowledged is there");
  await store[Symbol.asyncDispose]?.();
  assert.deepEqual(await subject.unfinished(root), []);
}

async function checkTarget(scratch: string): Promise<void> {
  const target = await Deno.readFile(`${scratch}/target`);
  const old = new TextEncoder().encode("as it was");
  assert.ok(same(target, old) || same(target, keptLarge), "a file is whole, old or new");
}

/** What a call has put when it succeeds. */
const PUTS: Readonly<Record<string, Uint8Array>> = {
  "put": SMALL,
  "putStream": LARGE,
  "putFile": LARGE,
  "repair": hurtSmall,
  "repair of a large blob": hurtLarge,
};

/** Let the operation number `at` of `call` fail. False: there are not so many. */
async function attempt(
  { root, scratch }: Places,
  subject: Subject,
  call: Call,
  at: number,
  way: Way,
): Promise<boolean> {
  const store = await subject.open(root);
  let error: unknown = null;
  let failed: string | null;
  {
    using faults = new Faults(at, way);
    await call.run(store, scratch).catch((thrown) => error = thrown);
    failed = faults.failed;
  }
  const where = `${call.name}, operation ${at} (${failed}) failed ${way}`;
  if (failed === null) assert.equal(error, null, where);
  if (error !== null) {
    assert.ok(
      isError(error, "unavailable", "not_found", "integrity", "unreachable"),
      `${where}: ${error instanceof Error ? error.stack : error}`,
    );
    // Bytes that could not be read are not damaged ones.
    assert.ok(!isError(error, "integrity") || call.name.startsWith("repair"), `${where}: ${error}`);
  }
  await store[Symbol.asyncDispose]?.();
  try {
    await checkTarget(scratch);
    await checkStore(subject, root, error === null ? PUTS[call.name] ?? null : null);
    const again = await subject.open(root);
    // A failure may have kept a read from mending what it read.
    if (error !== null || call.name === "get of a damaged copy") {
      const twice = call.name === "evict" && again.flush === undefined &&
        !await again.has(cidOf(DROPPED));
      if (!twice) await call.run(again, scratch);
    }
    assert.ok(await call.done(again, scratch), "it is done");
    await again[Symbol.asyncDispose]?.();
    await checkStore(subject, root, PUTS[call.name] ?? null);
  } catch (cause) {
    throw new Error(`${where}: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
  return failed !== null;
}

/** A directory whose syncs cost nothing, where there is one: thousands of them are made here. */
async function inMemory(): Promise<TempDir> {
  const there = await Deno.stat("/dev/shm").then((info) => info.isDirectory, () => false);
  return await TempDir.make("sublet-test-", there ? "/dev/shm" : undefined);
}

for (const subject of SUBJECTS) {
  for (const way of ["once", "from then on"] as const) {
    for (const call of CALLS) {
      if (call.only !== undefined && call.only !== subject.name) continue;
      Deno.test(`${subject.name}: ${call.name}, while each of its operations fails ${way}`, async () => {
        await using directory = await inMemory();
        const places = new Places(directory);
        await places.prepare(subject);
        let at = 0;
        do await places.renew(); while (await attempt(places, subject, call, ++at, way));
        assert.ok(at > 1, "some operation failed");
      });
    }
  }
}
