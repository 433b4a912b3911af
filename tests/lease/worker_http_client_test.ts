/** @module The calls of a worker over a real socket: what goes out, and what every answer means. */

import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { type ErrorCode, isError, SubletError } from "../../lib/home/mod.ts";
import { HttpLeaseClient } from "../../lib/lease/http_client.ts";
import { UnexplainedStatus } from "../../lib/lease/http_client_refusal.ts";
import { Superseded } from "../../lib/lease/superseded.ts";
import { endsWorker, isUnanswered } from "../../lib/lease/worker_core.ts";
import { openHttpClient } from "../../lib/net/mod.ts";
import { empty, FakeExecutor, framework, page, refused } from "./worker_fake_server.ts";

const CID = cidOf(new TextEncoder().encode("job"));
const SAMPLE = {
  at: "2030-01-01T00:00:00.000Z",
  cpus: 2,
  load1: 0.5,
  memory_available: 1e9,
  disk_free: 2e9,
};
const INFO = {
  version: "0.1.0",
  pool: "lab",
  runners: ["process"],
  labels: ["gpu"],
  sample: SAMPLE,
  casProbe: CID,
  incarnation: "this-one",
  succeeds: "the-last",
  once: true,
};

/** A server, and a client of it. */
class Pair implements AsyncDisposable {
  readonly server = new FakeExecutor();
  readonly #http = openHttpClient({ server: this.server.url, token: "slt_token" });
  readonly client = new HttpLeaseClient(this.#http);

  /** The error of a heartbeat that is answered with `response`. */
  async errorOf(response: () => Response): Promise<SubletError> {
    this.server.replies["heartbeat"] = response;
    try {
      await this.client.heartbeat(new Map(), SAMPLE);
    } catch (error) {
      assert.ok(isError(error), String(error));
      return error;
    }
    throw new Error("it was answered");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#http[Symbol.dispose]();
    await this.server[Symbol.asyncDispose]();
  }
}

Deno.test("register sends protocol 7's body, and who this process is as headers", async () => {
  await using pair = new Pair();
  pair.server.replies["register"] = () =>
    Response.json({
      worker: "desk",
      timing: { renew: 10, grace: 50, toleration: 300, more: 1 },
      held: [
        { lease: 1, job_cid: CID, handle: { pgid: 3, start_time: 4.5 }, started_at: "2030-01-01" },
        { lease: 2, job_cid: CID, handle: null, started_at: null, later: "field" },
        { lease: 3, job_cid: CID, handle: { runtime: "x", data: { a: [1] } }, started_at: null },
      ],
      cursor: 17,
      added: true,
    });
  const registration = await pair.client.register(INFO);
  assert.equal(registration.worker, "desk");
  assert.equal(registration.cursor, 17);
  assert.deepEqual(registration.timing, { renew: 10, grace: 50, toleration: 300 });
  assert.deepEqual(registration.held.map((grant) => grant.handle), [
    { pgid: 3, start_time: 4.5 },
    null,
    { runtime: "x", data: { a: [1] } },
  ]);
  const [seen] = pair.server.seen;
  assert.deepEqual(seen?.body, {
    protocol: 7,
    version: "0.1.0",
    pool: "lab",
    runners: ["process"],
    sample: SAMPLE,
    cas_probe: CID,
    labels: ["gpu"],
  });
  assert.equal(seen?.headers.get("authorization"), "Bearer slt_token");
  assert.equal(seen?.headers.get("sublet-incarnation"), "this-one");
  assert.equal(seen?.headers.get("sublet-succeeds"), "the-last");
  assert.equal(seen?.headers.get("sublet-once"), "1");
});

Deno.test("later calls say which process sends them, and nothing of its predecessor", async () => {
  await using pair = new Pair();
  await pair.client.register({ ...INFO, succeeds: null, once: false });
  assert.equal(pair.server.seen[0]?.headers.get("sublet-succeeds"), null);
  assert.equal(pair.server.seen[0]?.headers.get("sublet-once"), null);
  await pair.client.heartbeat(new Map(), SAMPLE);
  assert.equal(pair.server.seen[1]?.headers.get("sublet-incarnation"), "this-one");
});

Deno.test("acquire answers a grant, or the bare reason for none", async () => {
  await using pair = new Pair();
  for (const reason of ["draining", "memory", "load", "slots", "nothing"]) {
    pair.server.replies["acquire"] = () => Response.json(reason);
    assert.equal(await pair.client.acquire("id", SAMPLE), reason);
  }
  pair.server.replies["acquire"] = () => Response.json({ lease: 9, job_cid: CID });
  const grant = await pair.client.acquire("id-2", SAMPLE);
  assert.deepEqual(grant, { lease: 9, job_cid: CID, handle: null, started_at: null });
  assert.deepEqual(pair.server.seen.at(-1)?.body, { request_id: "id-2", sample: SAMPLE });
});

Deno.test("heartbeat sends lease ids as keys and answers them as numbers", async () => {
  await using pair = new Pair();
  pair.server.replies["heartbeat"] = () =>
    Response.json({ "1": "renewed", "2": "revoked", "30": "stale" });
  const answers = await pair.client.heartbeat(
    new Map([[1, null], [2, "session"], [30, null]]),
    SAMPLE,
  );
  assert.deepEqual([...answers], [[1, "renewed"], [2, "revoked"], [30, "stale"]]);
  assert.deepEqual(pair.server.seen[0]?.body["leases"], { "1": null, "2": "session", "30": null });
});

Deno.test("started, lost and queued send what they know, and take 204", async () => {
  await using pair = new Pair();
  await pair.client.started(5, { pgid: 7, start_time: null }, null);
  await pair.client.lost(5, "its disk died");
  await pair.client.lost(5, "its disk is full", undefined, true);
  await pair.client.queued(8, null);
  assert.deepEqual(pair.server.seen.map(({ call, body }) => [call, body]), [
    ["started", { lease: 5, handle: { pgid: 7, start_time: null }, session_id: null }],
    ["lost", { lease: 5, reason: "its disk died" }],
    ["lost", { lease: 5, reason: "its disk is full" }],
    ["queued", { message: 8, error: null }],
  ]);
  const faults = pair.server.seen.map(({ headers }) => headers.get("sublet-host-fault"));
  assert.deepEqual(faults, [null, null, "1", null]);
});

Deno.test("a report goes out whole, and its receipt is an object", async () => {
  await using pair = new Pair();
  const report = {
    kind: "evaluation",
    samples: [{ metrics: { a: 1.5 }, seconds: 2, error: null }],
  };
  await pair.client.report(5, "id", report);
  assert.deepEqual(pair.server.seen[0]?.body, { lease: 5, request_id: "id", report });
});

Deno.test("messages reads every kind, and 204 as none", async () => {
  await using pair = new Pair();
  const sent = [
    { kind: "work", id: 1 },
    { kind: "prompt", id: 2, lease: 5, prompt: { id: 9, text: "go on" } },
    { kind: "revoke", id: 3, lease: 5 },
    { kind: "drain", id: 4 },
  ];
  pair.server.replies["messages"] = () => Response.json(sent);
  assert.deepEqual(await pair.client.messages(0, 60), sent);
  assert.deepEqual(pair.server.seen[0]?.body, { after: 0, wait: 25 });
  pair.server.replies["messages"] = empty;
  assert.deepEqual(await pair.client.messages(4, 1), []);
});

Deno.test("send asks with at most 64 commits, and tells nothing lacking from still building", async () => {
  await using pair = new Pair();
  const have = Array.from({ length: 80 }, (_, i) => i.toString(16).padStart(40, "0"));
  const commit = "a".repeat(40);
  pair.server.replies["send"] = () => Response.json([CID]);
  assert.deepEqual(await pair.client.send(1, [commit], have, 25), [CID]);
  assert.equal((pair.server.seen[0]?.body["have"] as string[]).length, 64);
  pair.server.replies["send"] = () => Response.json([]);
  assert.deepEqual(await pair.client.send(1, [commit], [], 25), []);
  pair.server.replies["send"] = empty;
  assert.equal(await pair.client.send(1, [commit], [], 25), null);
});

const TYPED: [string, () => Response, ErrorCode][] = [
  ["409 stale_lease", () => refused(409, "stale_lease"), "stale_lease"],
  ["409 not_addressed", () => refused(409, "not_addressed"), "not_addressed"],
  ["409 missing_blobs", () => refused(409, "missing_blobs"), "missing_blobs"],
  ["409 not_sent", () => refused(409, "not_sent"), "not_sent"],
  ["409 dismissed", () => refused(409, "dismissed"), "dismissed"],
  ["409 superseded", () => refused(409, "superseded"), "superseded"],
  ["409 unknown_worker", () => refused(409, "unknown_worker"), "unknown_worker"],
  ["409 with a code of later", () => refused(409, "of_later"), "conflict"],
  ["403 reserved", () => refused(403, "reserved"), "reserved"],
  ["412 other_cas", () => refused(412, "other_cas"), "other_cas"],
  ["426 protocol", () => refused(426, "protocol"), "protocol"],
  ["422 invalid_body", () => refused(422, "invalid_body"), "invalid_body"],
  ["400 unsafe_path", () => refused(400, "unsafe_path"), "unsafe_path"],
  ["413 too_large", () => refused(413, "too_large"), "too_large"],
  ["401 unauthenticated of ours", () => refused(401, "unauthenticated"), "unauthenticated"],
  [
    "401 with a bearer's challenge and a detail",
    () => framework(401, "unknown or revoked", { "www-authenticate": "Bearer" }),
    "unauthenticated",
  ],
  ["403 with a detail", () => framework(403, "needs worker"), "permission_denied"],
  ["422 with a list of details", () => framework(422, [{ loc: ["body"] }]), "invalid_body"],
  ["429", () => page(429), "busy"],
  ["408", () => page(408), "unavailable"],
  ["500", () => framework(500, "Internal Server Error"), "unavailable"],
  ["502", () => page(502), "unavailable"],
  ["503", () => refused(503, "unavailable"), "unavailable"],
];

for (const [what, response, code] of TYPED) {
  Deno.test(`${what} means ${code}`, async () => {
    await using pair = new Pair();
    const error = await pair.errorOf(response);
    assert.equal(error.code, code);
    assert.equal(error instanceof UnexplainedStatus, false);
    assert.match(error.message, /heartbeat/);
  });
}

const UNEXPLAINED: [string, () => Response][] = [
  ["401 without a challenge", () => page(401)],
  ["401 of a proxy that wants a password", () => {
    const response = page(401);
    response.headers.set("www-authenticate", 'Basic realm="x"');
    return response;
  }],
  ["403 as a page", () => page(403)],
  ["404 as a page", () => page(404)],
  ["404 with a detail, after registration", () => framework(404, "Not Found")],
  ["409 as a page", () => page(409)],
  ["412 as a page", () => page(412)],
  ["413 as a page", () => page(413)],
  ["418 as a page", () => page(418)],
  ["426 as a page", () => page(426)],
  ["a redirect", () => new Response(null, { status: 302, headers: { location: "/login" } })],
  ["403 with JSON that says nothing", () => Response.json([], { status: 403 })],
  [
    "a code at another status than its own",
    () => Response.json({ error: "dismissed" }, { status: 404 }),
  ],
];

for (const [what, response] of UNEXPLAINED) {
  Deno.test(`${what} ends no worker and may be tried again`, async () => {
    await using pair = new Pair();
    const error = await pair.errorOf(response);
    assert.ok(error instanceof UnexplainedStatus, error.code);
    assert.equal(endsWorker(error), false);
    assert.equal(isUnanswered(error), true);
  });
}

const STRANGE: [string, () => Response][] = [
  ["a page of a captive portal", () => page(200)],
  ["204 where content is due", empty],
  ["another status of success", () => Response.json({}, { status: 202 })],
  ["an answer of another shape", () => Response.json({ "1": "maybe" })],
  ["keys that are no leases", () => Response.json([1, 2])],
  ["bytes that are no text", () => new Response(new Uint8Array([0xff, 0xfe]))],
];

for (const [what, response] of STRANGE) {
  Deno.test(`${what} is no answer`, async () => {
    await using pair = new Pair();
    const error = await pair.errorOf(response);
    assert.equal(error.code, "unavailable");
  });
}

Deno.test("a page with 200 is no receipt of a report, and no confirmation of anything", async () => {
  await using pair = new Pair();
  for (const call of ["report", "lost", "started"]) {
    pair.server.replies[call] = () => page(200);
  }
  const { client } = pair;
  await assert.rejects(client.report(1, "id", { kind: "x" }), /not of worker protocol 7/);
  await assert.rejects(client.lost(1, "x"), /not of worker protocol 7/);
  await assert.rejects(
    client.started(1, { pgid: 1, start_time: null }, null),
    /not of worker protocol 7/,
  );
});

Deno.test("404 with a detail at registration says that this server takes no workers", async () => {
  await using pair = new Pair();
  pair.server.replies["register"] = () => framework(404, "Not Found");
  await assert.rejects(pair.client.register(INFO), (error) => isError(error, "protocol"));
});

Deno.test("an answer without end is cut, and a refusal without end is still read", async () => {
  await using pair = new Pair();
  const endless = (status: number) => () =>
    new Response(
      new ReadableStream({
        pull: (controller) => controller.enqueue(new Uint8Array(1024 * 1024).fill(32)),
      }),
      { status },
    );
  assert.equal((await pair.errorOf(endless(200))).code, "unavailable");
  assert.ok(await pair.errorOf(endless(404)) instanceof UnexplainedStatus);
});

Deno.test("a server that is gone is unreachable, and a cancelled call ends at once", async () => {
  const server = new FakeExecutor();
  using http = openHttpClient({ server: server.url });
  const client = new HttpLeaseClient(http);
  const cancel = new AbortController();
  const polled = client.messages(0, 25, cancel.signal);
  polled.catch(() => {});
  cancel.abort();
  await assert.rejects(polled);
  await server[Symbol.asyncDispose]();
  await assert.rejects(
    client.heartbeat(new Map(), SAMPLE),
    (error) => isError(error, "unreachable"),
  );
});

Deno.test("a refusal for another process tells how long its name is taken, where the server says so", async () => {
  await using pair = new Pair();
  const body = { error: "superseded", detail: "another process" };
  const taken = await pair.errorOf(() =>
    Response.json(body, { status: 409, headers: { "retry-after": "42" } })
  );
  assert.ok(taken instanceof Superseded);
  assert.equal(taken.seconds, 42);
  const bare = await pair.errorOf(() => Response.json(body, { status: 409 }));
  assert.ok(bare instanceof Superseded);
  assert.equal(bare.seconds, null);
});

Deno.test("leave is a call of its own, and a server that has none fails that call alone", async () => {
  await using pair = new Pair();
  pair.server.replies["leave"] = empty;
  await pair.client.leave();
  pair.server.replies["leave"] = () => framework(404, "Not Found");
  await assert.rejects(pair.client.leave(), (error) => isUnanswered(error) && !endsWorker(error));
});
