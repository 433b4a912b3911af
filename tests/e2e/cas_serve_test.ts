/** @module The store's service as a process: its bounds from the config, tokens, and uploads that a restart keeps. */

import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { until } from "../kit/mod.ts";
import { Cluster } from "./cluster.ts";

const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};

Deno.test("cas serve keeps the bounds of [limits], asks for tokens, and knows uploads after a restart", async () => {
  await using cluster = await Cluster.make();
  const { programs } = cluster;
  await programs.write(
    "server/config.toml",
    "[limits]\nmax_blob_gb = 0.001\ntoken_uploads = 1\ntoken_gb_per_day = 0.002\n",
  );
  const token = await cluster.token("w1", "--access", "worker");
  const reader = await cluster.token("r1", "--access", "read");
  await cluster.serveCas();
  const ask = async (
    method: string,
    path: string,
    body?: Uint8Array<ArrayBuffer> | string,
    headers: Record<string, string> = {},
    bearer = token,
  ) => {
    const answer = await fetch(`${cluster.cas}/v1/cas/${path}`, {
      method,
      headers: { authorization: `Bearer ${bearer}`, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    const bytes = await answer.bytes();
    return { status: answer.status, bytes, text: new TextDecoder().decode(bytes) };
  };

  const data = noise(600_000);
  const cid = cidOf(data);
  const question = JSON.stringify({ cid, length: data.length });
  assert.equal((await ask("POST", "uploads", question, {}, reader)).status, 403);
  assert.equal((await ask("POST", "uploads", question, {}, "slt_x")).status, 401);
  const begun = JSON.parse((await ask("POST", "uploads", question)).text);
  const half = 2 * 131_072;
  const send = (from: number, to: number) =>
    ask("PATCH", `uploads/${begun.id}`, data.slice(from, to), { "upload-offset": String(from) });
  assert.equal((await send(0, half)).status, 204);
  const other = JSON.stringify({ cid: cidOf(noise(10)), length: 10 });
  assert.equal((await ask("POST", "uploads", other)).status, 429);

  programs.kill("cas");
  await programs.ended("cas");
  await cluster.serveCas();
  const again = JSON.parse((await ask("POST", "uploads", question)).text);
  assert.deepEqual([again.id, again.missing], [begun.id, [[half, data.length]]]);
  assert.equal((await send(half, data.length)).status, 201);
  assert.equal(cidOf((await ask("GET", cid)).bytes), cid);

  const large = noise(1_100_000);
  assert.equal((await ask("PUT", cidOf(large), large)).status, 413);
  // A day's bytes began anew with the service.
  for (let i = 0; i < 4; i++) {
    const more = noise(900_000);
    const { status } = await ask("PUT", cidOf(more), more);
    assert.equal(status, i < 3 ? 201 : 429);
  }
  assert.equal((await ask("GET", cid)).status, 200);
  await programs.sublet("server", ["token", "revoke", "w1"]);
  await until("the token is refused", async () => (await ask("GET", cid)).status === 401);
});
