/** @module A bucket whose n-th request fails, for every n: before it did anything, after it, or for good from there on. */

import assert from "node:assert/strict";
import { type Cid, cidOf } from "../../lib/cas/mod.ts";
import { objectKey } from "../../lib/cas/objects.ts";
import { openS3 } from "../../lib/cas/s3.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { hastyClock, noise } from "./bucket_kit.ts";
import { cutAfter, FakeS3 } from "./s3_fake.ts";
import { s3Env } from "./s3_kit.ts";

const SMALL = noise(5_000);
const MIDDLE = noise(300_000);
const LARGE = noise(8 * 1024 * 1024 + 1);
const ALL = [SMALL, MIDDLE, LARGE];

type Store = Awaited<ReturnType<typeof openS3>>;

async function withStore(work: (cas: Store, fake: FakeS3, tmp: TempDir) => Promise<void>) {
  await using fake = new FakeS3();
  await using tmp = await TempDir.make();
  const clock = hastyClock();
  const env = s3Env(fake.url);
  await using cas = await openS3({ url: "s3://bucket", env, tmp: tmp.path, clock });
  await work(cas, fake, tmp);
  const names = await Array.fromAsync(Deno.readDir(tmp.join("cas-uploads")));
  assert.deepEqual(names, [], "temporary files are left");
}

/** Everything that a store does, with each kind of object. */
async function use(cas: Store): Promise<void> {
  for (const data of ALL) assert.equal(await cas.put(data), cidOf(data));
  for (const data of ALL) assert.deepEqual(await cas.get(cidOf(data)), data);
  const part = await cas.getRange(cidOf(LARGE), 8_000_000, 8_000_100);
  const bytes = await new Response(part?.stream as ReadableStream).bytes();
  assert.deepEqual(bytes, LARGE.slice(8_000_000, 8_000_100));
  assert.equal(await cas.sizeOf(cidOf(MIDDLE)), MIDDLE.length);
  assert.equal((await cas.usage()).blobs, 3);
  assert.equal(await cas.put(MIDDLE), cidOf(MIDDLE));
  await cas.release(cidOf(SMALL));
  assert.equal(await cas.has(cidOf(SMALL)), false);
}

/** How many requests that takes. */
async function requests(): Promise<number> {
  let count = 0;
  await withStore(async (cas, fake) => {
    await use(cas);
    count = fake.seen.length;
  });
  return count;
}

const reset = (): never => {
  throw new Error("reset");
};

const FAULTS: Record<string, (usual: () => Response) => Response | Promise<Response>> = {
  "is refused before it does anything": () => new Response(null, { status: 503 }),
  "does its work, and its answer is lost": (usual) => {
    usual();
    return reset();
  },
  "breaks off in its answer": async (usual) => {
    const answer = usual();
    const length = Number(answer.headers.get("content-length") ?? 0);
    return answer.body === null ? answer : await cutAfter(answer, Math.floor(length / 2));
  },
};

for (const [fault, fail] of Object.entries(FAULTS)) {
  Deno.test(`nothing goes wrong when any one request ${fault}`, async () => {
    const count = await requests();
    assert.ok(count > 15, `${count} requests`);
    for (let n = 1; n <= count; n++) {
      await withStore(async (cas, fake) => {
        let at = 0;
        fake.hook = (_seen, usual) => ++at === n ? fail(usual) : null;
        await use(cas).catch((error) => {
          throw new Error(`request ${n} of ${count}`, { cause: error });
        });
        assert.deepEqual([...fake.objects.keys()].sort(), keysOf([MIDDLE, LARGE]));
        // Who never heard of an upload that it began cannot end it.
        assert.ok(fake.uploads.size <= (fault.includes("refused") ? 0 : 1));
      });
    }
  });
}

const keysOf = (blobs: readonly Uint8Array[]) =>
  blobs.map((data) => objectKey(cidOf(data) as Cid)).sort();

Deno.test("what is there is whole, whichever request an outage begins with", async () => {
  const count = await requests();
  for (let n = 1; n <= count; n++) {
    await withStore(async (cas, fake) => {
      let at = 0;
      fake.hook = () => ++at >= n ? new Response(null, { status: 503 }) : null;
      const error = await use(cas).then(() => null, (error) => error);
      assert.ok(isError(error, "unavailable"), `request ${n}: ${error}`);
      fake.hook = () => null;
      const keys = keysOf(ALL);
      assert.ok([...fake.objects.keys()].every((key) => keys.includes(key)));
      for (const data of ALL) {
        const got = await cas.get(cidOf(data));
        if (got !== null) assert.deepEqual(got, data);
        assert.equal(await cas.put(data), cidOf(data));
        assert.equal(await cas.integrity(cidOf(data)), "ok");
      }
    });
  }
});
