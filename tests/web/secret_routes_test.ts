/** @module Secrets over the API: a value goes in, and never comes out. */

import assert from "node:assert/strict";
import { ApiKit } from "./api_kit.ts";

const VALUE = "a value that never comes out";

Deno.test("a secret is set, listed without its value, set anew, and deleted", async () => {
  await using api = await ApiKit.make();
  await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
  const put = (name: string, body: object) => api.owner("PUT", `/v1/secrets/${name}`, body);
  assert.equal((await put("TOKEN", { value: VALUE })).status, 204);
  assert.equal((await put("TOKEN", { value: `${VALUE} anew` })).status, 204);
  assert.equal((await put("TOKEN", { value: VALUE, campaign: "demo" })).status, 204);
  const { json } = await api.owner("GET", "/v1/secrets");
  assert.deepEqual(
    json.secrets.map(({ name, campaign, set_by }: Record<string, unknown>) => [
      name,
      campaign,
      set_by,
    ]),
    [["TOKEN", null, "owner"], ["TOKEN", "demo", "owner"]],
  );
  assert.ok(!JSON.stringify(json).includes(VALUE));
  assert.equal((await api.owner("DELETE", "/v1/secrets/TOKEN?campaign=demo")).status, 204);
  assert.equal((await api.owner("DELETE", "/v1/secrets/TOKEN")).status, 204);
  assert.deepEqual((await api.owner("GET", "/v1/secrets")).json.secrets, []);
});

Deno.test("what cannot be set or deleted is refused, and the refusal holds no value", async () => {
  await using api = await ApiKit.make();
  const refused: [string, string, object | undefined, string][] = [
    ["PUT", "/v1/secrets/1A", { value: VALUE }, "invalid_request"],
    ["PUT", "/v1/secrets/A", { value: "" }, "invalid_request"],
    ["PUT", "/v1/secrets/A", {}, "invalid_body"],
    ["PUT", "/v1/secrets/A", { value: VALUE, campaign: "nobody" }, "not_found"],
    ["DELETE", "/v1/secrets/A", undefined, "not_found"],
    ["DELETE", "/v1/secrets/A?campaign=nobody", undefined, "not_found"],
  ];
  for (const [method, path, body, code] of refused) {
    const answer = await api.owner(method, path, body);
    assert.equal(answer.json.code, code, `${method} ${path}`);
    assert.ok(!JSON.stringify(answer.json).includes(VALUE));
  }
});

Deno.test("secrets are the administrator's: no other token sees or sets them", async () => {
  await using api = await ApiKit.make();
  for (const access of ["read", "act", "worker"] as const) {
    assert.equal((await api.as(access, "GET", "/v1/secrets")).json.code, "permission_denied");
    const set = await api.as(access, "PUT", "/v1/secrets/A", { value: VALUE });
    assert.equal(set.json.code, "permission_denied");
  }
  assert.equal((await api.as("admin", "PUT", "/v1/secrets/A", { value: VALUE })).status, 204);
});
