/** @module Limits over the API: in force at once, kept, shown, and refused one by one. */

import assert from "node:assert/strict";
import { nullLog, systemClock } from "../../lib/home/mod.ts";
import { Limits, type Pool } from "../../lib/lease/mod.ts";
import { openSqlite } from "../../lib/store/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { ApiKit, HandWorker } from "./api_kit.ts";

const KEY = "executor.pools.lab.evaluations";

Deno.test("a limit is in force at once, and gone when it is unset", async () => {
  await using api = await ApiKit.withEvaluations(2);
  const worker = new HandWorker(api);
  await worker.register();
  const set = await api.owner("PUT", `/v1/limits/${KEY}`, { value: 1, reason: "the disk is slow" });
  assert.deepEqual(
    [set.status, set.json.value, set.json.source, set.json.configured, set.json.limit.actor],
    [200, 1, "limit", 3, "owner"],
  );
  await worker.acquire();
  await assert.rejects(worker.acquire(), /slots/);
  const status = (await api.owner("GET", "/v1/status")).json;
  assert.deepEqual(
    status.limits.map((each: { key: string; limit: { reason: string } }) => [
      each.key,
      each.limit.reason,
    ]),
    [[KEY, "the disk is slow"]],
  );
  assert.equal((await api.owner("DELETE", `/v1/limits/${KEY}`)).status, 204);
  await worker.acquire();
  assert.equal((await api.owner("DELETE", `/v1/limits/${KEY}`)).json.code, "not_found");
});

Deno.test("null is no bound where the config allows none, and nothing else", async () => {
  await using api = await ApiKit.make();
  const agents = "executor.pools.lab.agents";
  const body = { value: null, reason: "as many as they like" };
  assert.equal((await api.owner("PUT", `/v1/limits/${agents}`, body)).json.value, null);
  const refused = await api.owner("PUT", `/v1/limits/${KEY}`, body);
  assert.equal(refused.json.code, "invalid_request");
  assert.match(refused.json.message, /must be a whole number/);
});

const REFUSED: [string, string, object, string, RegExp][] = [
  [
    "a key that is not live",
    "executor.renew_seconds",
    { value: 1, reason: "x" },
    "not_found",
    /may/,
  ],
  [
    "a mistyped key",
    "executor.pools.lab.evaluation",
    { value: 1, reason: "x" },
    "not_found",
    /did you mean executor\.pools\.lab\.evaluations/,
  ],
  [
    "a pool that is not there",
    "executor.pools.nope.max_load",
    { value: 1, reason: "x" },
    "not_found",
    /may/,
  ],
  ["a fraction of a slot", KEY, { value: 1.5, reason: "x" }, "invalid_request", /whole/],
  ["less than nothing", KEY, { value: -1, reason: "x" }, "invalid_request", /whole/],
  ["no reason", KEY, { value: 1, reason: "  " }, "invalid_body", /why/],
  ["no value", KEY, { reason: "x" }, "invalid_body", /value/],
];

Deno.test("a limit that cannot be is refused, and changes nothing", async (t) => {
  await using api = await ApiKit.make();
  for (const [what, key, body, code, message] of REFUSED) {
    await t.step(what, async () => {
      const { json } = await api.owner("PUT", `/v1/limits/${key}`, body);
      assert.equal(json.code, code, json.message);
      assert.match(json.message, message);
    });
  }
  const { json } = await api.owner("GET", "/v1/limits");
  assert.ok(json.limits.every((each: { limit: unknown }) => each.limit === null));
});

Deno.test("only an admin sets a limit, and whoever may read sees it", async () => {
  await using api = await ApiKit.make();
  const body = { value: 1, reason: "x" };
  assert.equal((await api.as("act", "PUT", `/v1/limits/${KEY}`, body)).status, 403);
  assert.equal((await api.as("act", "DELETE", `/v1/limits/${KEY}`)).status, 403);
  assert.equal((await api.as("admin", "PUT", `/v1/limits/${KEY}`, body)).status, 200);
  assert.equal((await api.as("read", "GET", "/v1/limits")).status, 200);
});

Deno.test("limits survive a restart, and one that the config does not allow any more is passed over alone", async () => {
  await using dir = await TempDir.make("sublet-limits-");
  await using db = await openSqlite(dir.join("x.db"));
  const applied: Readonly<Record<string, Pool>>[] = [];
  const events: string[] = [];
  const open = async (pools: Readonly<Record<string, Pool>>) => {
    const log = { ...nullLog, event: (name: string) => events.push(name) };
    const limits = new Limits({
      db,
      clock: systemClock,
      log,
      pools,
      apply: (pools) => applied.push(pools),
    });
    await limits.load();
    return limits;
  };
  const first = await open({ lab: { evaluations: 3 }, gpu: { evaluations: 1 } });
  await first.set("executor.pools.lab.max_load", 1.5, "busy", "ann");
  await first.set("executor.pools.gpu.evaluations", 0, "broken", "ben");
  const again = await open({ lab: { evaluations: 4 } });
  assert.deepEqual(applied.at(-1), { lab: { evaluations: 4, max_load: 1.5 } });
  assert.deepEqual(
    again.refused().map(({ key, actor }) => [key, actor]),
    [["executor.pools.gpu.evaluations", "ben"]],
  );
  assert.equal(events.filter((event) => event === "limits.refused").length, 1);
  const back = await open({ lab: { evaluations: 4 }, gpu: { evaluations: 1 } });
  assert.deepEqual(applied.at(-1), {
    lab: { evaluations: 4, max_load: 1.5 },
    gpu: { evaluations: 0 },
  });
  assert.deepEqual(back.refused(), []);
  await again.unset("executor.pools.gpu.evaluations", "ann");
  assert.deepEqual(again.refused(), []);
});
