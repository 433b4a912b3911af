/** @module Tests of a served store whose process is killed while parts of a blob arrive. */

import assert from "node:assert/strict";
import { cidOf, openDisk } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";

const PART = 128 * 1024;
const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};

async function start(root: string) {
  const script = new URL("./http_process.ts", import.meta.url).pathname;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", script, root],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const { value } = await reader.read();
  await reader.cancel();
  const kill = async () => {
    try {
      child.kill("SIGKILL");
    } catch {
      // It was killed before.
    }
    await child.status;
  };
  const url = `http://127.0.0.1:${Number(value)}/v1/cas/uploads`;
  return {
    begin: async (cid: string, length: number): Promise<{ id: string; missing: number[][] }> =>
      await (await fetch(url, { method: "POST", body: JSON.stringify({ cid, length }) })).json(),
    /** The status of the answer; 0: none came. */
    send: (id: string, from: number, body: Uint8Array<ArrayBuffer>): Promise<number> =>
      fetch(`${url}/${id}`, {
        method: "PATCH",
        body,
        headers: { "upload-offset": String(from) },
      }).then(async (answer) => {
        await answer.body?.cancel();
        return answer.status;
      }, () => 0),
    kill,
    [Symbol.asyncDispose]: kill,
  };
}

Deno.test("a process that is killed while parts arrive leaves nothing of them in the store, and knows them when it is back", async () => {
  await using scratch = await TempDir.make();
  const root = scratch.join("store");
  const data = noise(160 * PART + 99);
  const cid = cidOf(data);
  let before = data.length;
  let gained = 0;
  for (let round = 1; round <= 4; round++) {
    await using server = await start(root);
    const { id, missing } = await server.begin(cid, data.length);
    const left = missing.reduce((sum, [from = 0, to = 0]) => sum + to - from, 0);
    assert.ok(left <= before, `${left} bytes are missing, after ${before}`);
    if (left < before) gained++;
    before = left;
    // Four at once, of which some answers are waited for, and then the process is killed.
    let answers = 0;
    const some = Promise.withResolvers<void>();
    const parts = missing.flatMap(([from = 0, to = 0]) => {
      const starts = [];
      for (let at = from; at < to; at += 8 * PART) starts.push([at, Math.min(to, at + 8 * PART)]);
      return starts;
    });
    const sent = parts.slice(0, 4).map(async ([from = 0, to = 0]) => {
      const status = await server.send(id, from, data.slice(from, to));
      if (status === 204 && ++answers === round) some.resolve();
    });
    await some.promise;
    await server.kill();
    await Promise.all(sent);
    await using store = await openDisk({ path: root });
    assert.equal(await store.has(cid), false);
    assert.equal((await store.usage()).blobs, 0);
  }
  assert.ok(gained >= 3, "what was answered is kept");
  await using server = await start(root);
  const { id, missing } = await server.begin(cid, data.length);
  let last = 0;
  for (const [from = 0, to = 0] of missing) {
    last = await server.send(id, from, data.slice(from, to));
  }
  await server.kill();
  assert.equal(last, 201);
  await using store = await openDisk({ path: root });
  assert.equal(await store.integrity(cid), "ok");
  assert.deepEqual(await Array.fromAsync(Deno.readDir(`${root}/uploads`)), []);
});
