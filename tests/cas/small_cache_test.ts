/** @module Tests of small blobs that a disk store has at hand. */

import assert from "node:assert/strict";
import { casService, cidOf, openDisk } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { damageObject, objectPath } from "./disk_kit.ts";

const text = (value: string) => new TextEncoder().encode(value);

/** A store with one small blob whose file is old enough to be kept in memory. */
async function setUp() {
  const stack = new AsyncDisposableStack();
  const root = stack.use(await TempDir.make()).join("store");
  const store = stack.use(await openDisk({ path: root }));
  const cid = await store.put(text("a small blob"));
  const path = objectPath(root, cid);
  const before = new Date(Date.now() - 60_000);
  await Deno.utime(path, before, before);
  const service = casService(store);
  const ask = async (method: string) => {
    const answer = await service.fetch(new Request(`http://store/v1/cas/${cid}`, { method }));
    return [answer.status, await answer.text()] as const;
  };
  return { root, store, cid, path, ask, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

Deno.test("a small blob is at hand, and its file is not read again", async () => {
  await using setting = await setUp();
  const { store, cid, path } = setting;
  const first = store.atHand(cid);
  assert.deepEqual(first, text("a small blob"));
  assert.equal(store.atHand(cid), first);
  assert.equal(store.sizeAtHand(cid), 12);
  await using other = await openDisk({ path: `${path}.other` });
  assert.equal(other.atHand(cid), null);
});

Deno.test("what changes about the file of a blob at hand is seen at once", async () => {
  for (const how of ["flipped", "truncated", "empty"] as const) {
    await using setting = await setUp();
    const { root, store, cid, ask } = setting;
    assert.deepEqual(await ask("GET"), [200, "a small blob"]);
    await damageObject(root, cid, how);
    const [status, body] = await ask("GET");
    assert.equal(status, 500, how);
    assert.match(body, /"code":"integrity"/);
    await store.put(text("a small blob"));
    assert.deepEqual(await ask("GET"), [200, "a small blob"]);
  }
  await using setting = await setUp();
  const { store, cid, path, ask } = setting;
  assert.deepEqual(await ask("GET"), [200, "a small blob"]);
  assert.equal((await ask("HEAD"))[0], 200);
  await store.release(cid);
  assert.equal((await ask("GET"))[0], 404);
  assert.equal((await ask("HEAD"))[0], 404);
  await store.put(text("a small blob"));
  assert.deepEqual(await ask("GET"), [200, "a small blob"]);
  await Deno.remove(path);
  assert.equal((await ask("GET"))[0], 404);
});

Deno.test("a file that was just written is read again: a change of it might not show", async () => {
  await using setting = await setUp();
  const { store } = setting;
  const cid = await store.put(text("just now"));
  const now = new Date(Date.now() + 60_000);
  await Deno.utime(objectPath(setting.root, cid), now, now);
  const first = store.atHand(cid);
  assert.deepEqual(first, text("just now"));
  assert.notEqual(store.atHand(cid), first);
});

Deno.test("what is absent, damaged or large is not at hand", async () => {
  await using setting = await setUp();
  const { store, root } = setting;
  assert.equal(store.atHand(cidOf(text("nowhere"))), null);
  assert.equal(store.sizeAtHand(cidOf(text("nowhere"))), null);
  const large = crypto.getRandomValues(new Uint8Array(65_536));
  const cid = await store.put(new Uint8Array([...large, ...large]));
  assert.equal(store.atHand(cid), null);
  assert.equal(store.sizeAtHand(cid), 131_072);
  await damageObject(root, setting.cid, "flipped");
  assert.throws(() => store.atHand(setting.cid), { code: "integrity" });
});
