import assert from "node:assert/strict";
import { Hono } from "hono";
import * as z from "zod";
import { type Clock, nullLog, SubletError, systemClock } from "../../lib/home/mod.ts";
import {
  type Access,
  allows,
  authenticate,
  errorBody,
  HttpsNetwork,
  type NetEnv,
  type Network,
  onError,
  type Peer,
  readJson,
  requireAccess,
  Tokens,
  toResponse,
} from "../../lib/net/mod.ts";
import { openSqlite } from "../../lib/store/mod.ts";

const ACCESS: readonly Access[] = ["read", "act", "admin", "worker"];
const GRANTS: Record<Access, string> = {
  read: "read",
  act: "read act",
  admin: "read act admin",
  worker: "worker",
};

Deno.test("read < act < admin, and worker is apart: not even admin includes it", () => {
  for (const has of ACCESS) {
    assert.deepEqual(ACCESS.filter((needed) => allows(has, needed)).join(" "), GRANTS[has]);
  }
});

const TCP: Peer = { address: "192.0.2.1", unix: false };
const UNIX: Peer = { address: null, unix: true };

async function setUp(network?: Network, clock: Clock = systemClock) {
  const db = await openSqlite(":memory:");
  const tokens = new Tokens(db, systemClock);
  const https = network ?? await HttpsNetwork.open({
    provider: "https",
    listen: null,
    tls: null,
    url: null,
  });
  const app = new Hono<NetEnv>();
  app.onError(onError("api", nullLog));
  app.use(authenticate(tokens, https, clock));
  app.get("/who", (c) => c.json(c.get("caller")));
  for (const access of ACCESS) {
    app.get(`/${access}`, requireAccess(access), (c) => c.text("yes"));
  }
  return {
    tokens,
    get: (path: string, peer: Peer, headers: Record<string, string> = {}) =>
      Promise.resolve(app.request(path, { headers }, peer)),
    [Symbol.asyncDispose]: () => db[Symbol.asyncDispose](),
  };
}

Deno.test("a token says who calls, on every listener", async () => {
  await using t = await setUp();
  const authorization = `Bearer ${await t.tokens.create("me", { access: "act" })}`;
  for (const peer of [TCP, UNIX]) {
    for (const value of [authorization, authorization.replace("Bearer", "bearer")]) {
      const response = await t.get("/who", peer, { authorization: value });
      assert.deepEqual(await response.json(), { name: "me", access: "act", pool: null });
    }
  }
});

Deno.test("whoever opens the Unix socket without a token is the owner, with admin", async () => {
  await using t = await setUp();
  assert.deepEqual(await (await t.get("/who", UNIX)).json(), {
    name: "owner",
    access: "admin",
    pool: null,
  });
  assert.equal((await t.get("/worker", UNIX)).status, 403);
});

Deno.test("no token, another scheme and an unknown token are 401, and say what to do", async () => {
  await using t = await setUp();
  for (const authorization of ["", "Basic YTpi", "Bearer", "Bearer slt_unknown", "Bearer other"]) {
    const response = await t.get("/who", TCP, authorization === "" ? {} : { authorization });
    assert.equal(response.status, 401);
    assert.equal(response.headers.get("www-authenticate"), "Bearer");
    const body = await response.json();
    assert.equal(body.code, "unauthenticated");
    assert.match(body.message, /sublet token create/);
    assert.ok(!body.message.includes("slt_unknown"));
  }
  assert.equal((await t.get("/who", UNIX, { authorization: "Bearer slt_unknown" })).status, 401);
});

Deno.test("the wrong access is 403, which names the caller, its access and the needed one", async () => {
  await using t = await setUp();
  for (const access of ACCESS) {
    const authorization = `Bearer ${await t.tokens.create(`a-${access}`, { access })}`;
    for (const needed of ACCESS) {
      const response = await t.get(`/${needed}`, TCP, { authorization });
      const text = await response.text();
      if (GRANTS[access].split(" ").includes(needed)) {
        assert.equal(response.status, 200);
        continue;
      }
      assert.equal(response.status, 403);
      assert.match(
        text,
        new RegExp(`"permission_denied".*a-${access} has the access ${access}.*${needed}`),
      );
    }
  }
});

Deno.test("a network that says who its callers are gets them, and takes no token of ours on its listener", async () => {
  const network: Network = {
    takesTokens: false,
    identify: (headers) =>
      headers.has("x-user")
        ? { name: headers.get("x-user") ?? "", access: "read", pool: null }
        : { refused: "no x-user" },
  };
  await using t = await setUp(network);
  const authorization = `Bearer ${await t.tokens.create("me", { access: "act" })}`;
  assert.equal((await (await t.get("/who", TCP, { "x-user": "ann" })).json()).name, "ann");
  assert.equal(
    (await (await t.get("/who", TCP, { "x-user": "ann", authorization: "Bearer theirs" })).json())
      .name,
    "ann",
  );
  assert.equal((await t.get("/who", TCP, { "x-user": "ann", authorization })).status, 401);
  assert.match(await (await t.get("/who", TCP)).text(), /no x-user/);
  assert.equal((await (await t.get("/who", UNIX, { authorization })).json()).name, "me");
});

Deno.test("an address that fails again and again gets 429, and a good token from it goes through", async () => {
  let time = 0;
  await using t = await setUp(undefined, { ...systemClock, monotonic: () => time });
  const authorization = `Bearer ${await t.tokens.create("me", { access: "read" })}`;
  const wrong = { authorization: "Bearer wrong" };
  const statuses: number[] = [];
  for (let i = 0; i < 25; i++) statuses.push((await t.get("/who", TCP, wrong)).status);
  assert.deepEqual(statuses, [...Array(20).fill(401), ...Array(5).fill(429)]);
  assert.equal((await t.get("/who", TCP, { authorization })).status, 200);
  assert.equal((await t.get("/who", { address: "192.0.2.2", unix: false }, wrong)).status, 401);
  assert.equal((await t.get("/who", TCP, wrong)).headers.get("retry-after"), "1");
  time += 2_000;
  assert.equal((await t.get("/who", TCP, wrong)).status, 401);
});

Deno.test("the body of a refusal has the shape of its route", () => {
  assert.deepEqual(errorBody("stale_lease", "old", "api"), { code: "stale_lease", message: "old" });
  assert.deepEqual(errorBody("stale_lease", "old", "executor"), {
    error: "stale_lease",
    detail: "old",
  });
  for (
    const code of ["unauthenticated", "permission_denied", "not_found", "invalid_body"] as const
  ) {
    assert.deepEqual(errorBody(code, "no", "executor"), { detail: "no" });
  }
});

Deno.test("an error is answered with its status, and one that we did not mean without its text", async () => {
  const cases = [
    [new SubletError("dismissed", "no such pool"), 409, "no such pool"],
    [new SubletError("protocol", "7"), 426, "7"],
    [new SubletError("other_cas", "x"), 412, "x"],
    [new SubletError("busy", "x"), 429, "x"],
    [new SubletError("unavailable", "x"), 503, "x"],
    [new Error("the password is swordfish"), 500, "log"],
    [new SubletError("internal", "SELECT * FROM secrets"), 500, "log"],
    ["thrown text", 500, "log"],
  ] as const;
  for (const [error, status, text] of cases) {
    const response = toResponse(error, "executor");
    assert.equal(response.status, status);
    assert.equal(response.headers.has("retry-after"), status === 429 || status === 503);
    const { detail } = await response.json();
    assert.ok(detail.includes(text), detail);
    assert.ok(!/swordfish|SELECT|thrown/.test(detail));
  }
});

Deno.test("a failure of the server's own is logged with its text, a refusal is not", async () => {
  const events: unknown[] = [];
  const app = new Hono();
  app.onError(onError("api", { event: (event, fields) => events.push([event, fields?.error]) }));
  app.get("/bug", () => {
    throw new Error("a bug");
  });
  app.get("/no", () => {
    throw new SubletError("not_found", "nothing here");
  });
  assert.equal((await app.request("/bug")).status, 500);
  assert.equal((await app.request("/no")).status, 404);
  assert.deepEqual(events, [["http.failed", "a bug"]]);
});

const schema = z.object({ lease: z.int(), name: z.string().max(5) });

async function read(body: BodyInit | null, headers: Record<string, string> = {}) {
  const request = new Request("http://x/", { method: "POST", body, headers });
  try {
    return await readJson(request, schema, 100);
  } catch (error) {
    if (error instanceof SubletError) return `${error.status} ${error.message}`;
    throw error;
  }
}

Deno.test("a JSON body is read and checked, with or without a Content-Length", async () => {
  const body = '{"lease": 1, "name": "a", "more": true}';
  assert.deepEqual(await read(body), { lease: 1, name: "a" });
  assert.deepEqual(await read(body, { "content-length": String(body.length) }), {
    lease: 1,
    name: "a",
  });
});

Deno.test("a body that is no JSON is 400, one of another shape 422, and one that is too long 413", async () => {
  for (const body of ["", "{", "lease=1", "\0", null]) {
    assert.match(String(await read(body)), /^400 /);
  }
  assert.match(
    String(await read('{"lease": "x", "name": "abcdefgh"}')),
    /^422 .*lease: .*; name: /,
  );
  assert.match(String(await read("[]")), /^422 .*body: /);
  assert.match(String(await read("null")), /^422 /);
  const long = JSON.stringify({ lease: 1, name: "a", pad: "x".repeat(200) });
  assert.match(String(await read(long)), /^413 .*100 bytes/);
  assert.match(String(await read(long, { "content-length": "300" })), /^413 /);
  assert.match(String(await read("[".repeat(90))), /^400 /);
});
