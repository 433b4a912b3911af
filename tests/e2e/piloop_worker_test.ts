/** @module A worker that writes what a piloop 0.3.1 worker writes, byte for byte, gets what it expects from our server. */

import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { until } from "../kit/mod.ts";
import { Cluster } from "./cluster.ts";
import { fill, fixture, shape } from "./protocol_7.ts";

const encoder = new TextEncoder();

interface Answer {
  readonly status: number;
  readonly type: string | null;
  readonly text: string;
}

class RecordedWorker {
  constructor(
    readonly cluster: Cluster,
    readonly token: string | null,
  ) {}

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const headers = new Headers({ ...fixture.headers, ...init.headers as Record<string, string> });
    if (this.token !== null) headers.set("authorization", `Bearer ${this.token}`);
    return await fetch(url, { ...init, headers });
  }

  async post(call: string, body: string): Promise<Answer> {
    const url = `${this.cluster.server}/v1/executor/${call}`;
    const response = await this.#fetch(url, { method: "POST", body });
    const text = await response.text();
    return { status: response.status, type: response.headers.get("content-type"), text };
  }

  /** A call of the fixture's, whose answer has `status` 200 and is JSON. */
  async call<T>(
    call: keyof typeof fixture.requests,
    values: Record<string, string | number> = {},
  ): Promise<T> {
    const answer = await this.post(call, fill(fixture.requests[call], values));
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.type, "application/json");
    return JSON.parse(answer.text);
  }

  async cas(method: string, cid: string, body?: Uint8Array<ArrayBuffer>): Promise<Response> {
    const init = body === undefined ? {} : { body };
    return await this.#fetch(`${this.cluster.cas}/v1/cas/${cid}`, { method, ...init });
  }

  /** Put as it does: ask first, then send. */
  async put(text: string): Promise<string> {
    const bytes = encoder.encode(text);
    const cid = String(cidOf(bytes));
    const head = await this.cas("HEAD", cid);
    await head.body?.cancel();
    if (head.status === 404) {
      const put = await this.cas("PUT", cid, bytes);
      assert.equal(`${put.status} ${await put.text()}`, "201 ");
    }
    return cid;
  }

  async register<T>(): Promise<T> {
    const probe = await this.put(`piloop worker cas probe ${crypto.randomUUID()}\n`);
    return await this.call("register", { POOL: "lab", PROBE: probe });
  }
}

interface Grant {
  readonly lease: number;
  readonly job_cid: string;
}
type Message = { readonly kind: string; readonly id: number; readonly lease?: number };

Deno.test("a piloop worker's calls, byte for byte, are answered as it expects", async (t) => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  await cluster.serveCas();
  const revisions = await cluster.campaign([1, 2, 3]);
  const worker = new RecordedWorker(cluster, await cluster.token("w1"));
  const id = () => crypto.randomUUID().replaceAll("-", "");
  const queue = async (revision = "") => {
    const [queued] = await cluster.queue(revision);
    assert.ok(queued !== undefined);
    return queued;
  };
  let after = 0;
  const message = async (): Promise<Message> => {
    const messages = await until("a message", async () => {
      const body = fill(fixture.requests.messages, { WAIT: "10.0", AFTER: after });
      const { status, text } = await worker.post("messages", body);
      assert.ok(status === 200 || status === 204 && text === "", `${status} ${text}`);
      return status === 200 ? JSON.parse(text) as Message[] : null;
    });
    after = messages.at(-1)?.id ?? after;
    const [only] = messages;
    assert.ok(only !== undefined && messages.length === 1, JSON.stringify(messages));
    return only;
  };
  const acquire = () => worker.call<Grant | string>("acquire", { ID: id() });
  const granted = async (): Promise<Grant> =>
    await until("a lease is granted", async () => {
      const answer = await acquire();
      return typeof answer === "string" ? null : answer;
    });
  const started = async (lease: number) => {
    for (const pgid of [4_000_000, 4_000_001]) {
      const body = fill(fixture.requests.started, { LEASE: lease, PGID: pgid });
      const { status, text } = await worker.post("started", body);
      assert.equal(`${status} ${text}`, "204 ");
    }
  };
  const reportBody = async (lease: number, request: string, samples: string) =>
    fill(fixture.requests.report, {
      LEASE: lease,
      ID: request,
      SAMPLES: samples,
      STDERR: await worker.put(""),
      STDOUT: await worker.put(`METRIC score=2\n`),
    });

  await t.step("it joins, has no lease, and is told nothing", async () => {
    const answer = await worker.register<Record<string, unknown>>();
    assert.deepEqual(shape(answer), [
      ["worker", "string"],
      ["timing", [["renew", "number"], ["grace", "number"], ["toleration", "number"]]],
      ["held", []],
      ["cursor", "number"],
    ]);
    after = answer["cursor"] as number;
    assert.deepEqual(await worker.call("heartbeat", { LEASES: "{}" }), {});
    assert.equal(await acquire(), "nothing");
    const quiet = fill(fixture.requests.messages, { WAIT: "0.0", AFTER: after });
    assert.deepEqual(await worker.post("messages", quiet), { status: 204, type: null, text: "" });
  });

  let evaluation = await queue(revisions[1]);
  let grant: Grant;
  await t.step("it is told of work, gets it with its versions, and reports it once", async () => {
    assert.deepEqual(shape(await message()), [["kind", "string"], ["id", "number"]]);
    grant = await granted();
    assert.deepEqual(shape(grant), [
      ["lease", "number"],
      ["job_cid", "string"],
      ["handle", "null"],
      ["started_at", "null"],
    ]);
    assert.equal(await acquire(), "nothing");
    const job = await worker.cas("GET", grant.job_cid);
    assert.equal(job.headers.get("content-type"), "application/octet-stream");
    const bytes = await job.bytes();
    assert.equal(String(cidOf(bytes)), grant.job_cid);
    assert.equal(job.headers.get("content-length"), String(bytes.length));
    const fields = JSON.parse(new TextDecoder().decode(bytes));
    const recorded = JSON.parse(fill(fixture.job, { REVISION: "0", REPEATS: 1 }));
    assert.deepEqual(Object.keys(fields), Object.keys(recorded));
    assert.deepEqual(shape(fields.artifact), shape(recorded.artifact));
    assert.equal(fields.artifact.revision, revisions[1]);

    const sent = await worker.call<string[]>("send", {
      REPO: fields.artifact.repo,
      REVISION: fields.artifact.revision,
      HAVE: "[]",
    });
    const bundles = await Promise.all(sent.map(async (cid) => {
      const bytes = await (await worker.cas("GET", cid)).bytes();
      return new TextDecoder("latin1").decode(bytes.subarray(0, 2000));
    }));
    for (const text of bundles) assert.ok(text.startsWith(fixture.bundle_head), text.slice(0, 80));
    assert.ok(bundles.some((text) => /^[0-9a-f]{40} refs\/heads\/0\n/m.test(text)));

    await started(grant.lease);
    const LEASES = `{"${grant.lease}":null}`;
    assert.deepEqual(await worker.call("heartbeat", { LEASES }), { [grant.lease]: "renewed" });
    const request = id();
    const samples = fill(fixture.samples.measured, { SCORE: "2.0" });
    const body = await reportBody(grant.lease, request, samples);
    const lacking = body.replace(
      /"candidate-0\/eval.stdout":"[^"]+"/,
      (text) => text.replace(/bafkr4i[a-z2-7]{52}/, `bafkr4i${"a".repeat(52)}`),
    );
    const refused = await worker.post("report", lacking);
    assert.equal(refused.status, 409);
    assert.equal(JSON.parse(refused.text).error, "missing_blobs");
    for (let again = 0; again < 2; again++) {
      const { status, text } = await worker.post("report", body);
      assert.equal(`${status} ${text}`, `200 ${fixture.answers.report}`);
    }
    const other = await worker.post("report", await reportBody(grant.lease, id(), samples));
    assert.equal(other.status, 409);
    assert.deepEqual(shape(JSON.parse(other.text)), [["error", "string"], ["detail", "string"]]);
    assert.equal(JSON.parse(other.text).error, "stale_lease");
    assert.deepEqual(await worker.call("heartbeat", { LEASES }), { [grant.lease]: "stale" });

    const { state, metrics, worker: name, files } = await cluster.ended(evaluation);
    assert.deepEqual({ state, metrics, name }, {
      state: "measured",
      metrics: { score: 2 },
      name: "w1",
    });
    assert.deepEqual(Object.keys(files).sort(), [
      "candidate-0/eval.stderr",
      "candidate-0/eval.stdout",
    ]);
  });

  await t.step("a cancelled job is revoked, and its report is taken", async () => {
    evaluation = await queue(revisions[2]);
    assert.equal((await message()).kind, "work");
    const { lease } = await granted();
    await started(lease);
    await cluster.programs.sublet("server", ["job", "cancel", String(evaluation.job)]);
    const revoke = await message();
    assert.deepEqual(Object.keys(revoke), ["kind", "id", "lease"]);
    assert.deepEqual([revoke.kind, revoke.lease], ["revoke", lease]);
    const answer = await worker.call("heartbeat", { LEASES: `{"${lease}":null}` });
    assert.deepEqual(answer, { [lease]: "revoked" });
    const report = await reportBody(lease, id(), fixture.samples.killed);
    assert.equal((await worker.post("report", report)).status, 200);
    assert.equal((await cluster.ended(evaluation)).state, "cancelled");
  });

  await t.step(
    "started again, it is told what it held, and what it lost is queued again",
    async () => {
      evaluation = await queue(revisions[0]);
      const first = await granted();
      await started(first.lease);
      const { held } = await worker.register<{ held: Grant[] }>();
      assert.deepEqual(shape(held), [[
        ["lease", "number"],
        ["job_cid", "string"],
        ["handle", [["pgid", "number"], ["start_time", "number"]]],
        ["started_at", "string"],
      ]]);
      assert.deepEqual([held[0]?.lease, held[0]?.job_cid], [first.lease, first.job_cid]);
      const lost = await worker.post("lost", fill(fixture.requests.lost, { LEASE: first.lease }));
      assert.equal(`${lost.status} ${lost.text}`, "204 ");
      const second = await granted();
      assert.equal(second.job_cid, first.job_cid);
      assert.ok(second.lease > first.lease);
      const samples = fill(fixture.samples.measured, { SCORE: "1.0" });
      const stale = await worker.post("report", await reportBody(first.lease, id(), samples));
      assert.equal(JSON.parse(stale.text).error, "stale_lease");
      await worker.post("report", await reportBody(second.lease, id(), samples));
      assert.equal((await cluster.ended(evaluation)).lease, second.lease);
    },
  );

  await t.step("what is refused is refused as its own server refuses it", async () => {
    const unknown = new RecordedWorker(cluster, `plt_${"x".repeat(43)}`);
    const reader = new RecordedWorker(cluster, await cluster.token("rd", "--access", "read"));
    const PROBE = await worker.put("a probe");
    const beat = fill(fixture.requests.heartbeat, { LEASES: "{}" });
    const register = (values: Record<string, string>) =>
      fill(fixture.requests.register, { POOL: "lab", PROBE, ...values });
    const absent = `bafkr4i${"a".repeat(52)}`;
    const cases: [string, RecordedWorker, string, string, number, string | undefined][] = [
      ["no token", new RecordedWorker(cluster, null), "heartbeat", beat, 401, undefined],
      ["an unknown token", unknown, "heartbeat", beat, 401, undefined],
      ["another access", reader, "heartbeat", beat, 403, undefined],
      ["no body", worker, "register", "{}", 422, undefined],
      ["another protocol", worker, "register", register({}).replace(":7,", ":6,"), 426, "protocol"],
      ["another store", worker, "register", register({ PROBE: absent }), 412, "other_cas"],
      ["an unknown pool", worker, "register", register({ POOL: "nope" }), 409, "dismissed"],
      [
        "a lease that never was",
        worker,
        "started",
        fill(fixture.requests.started, { LEASE: 999, PGID: 1 }),
        409,
        "stale_lease",
      ],
      [
        "too long a wait",
        worker,
        "messages",
        fill(fixture.requests.messages, { WAIT: "999.0", AFTER: 0 }),
        422,
        undefined,
      ],
      [
        "an unknown repository",
        worker,
        "send",
        fill(fixture.requests.send, { REPO: 99, REVISION: "a".repeat(40), HAVE: "[]" }),
        409,
        "not_sent",
      ],
      ["an unknown call", worker, "nope", "{}", 404, undefined],
    ];
    for (const [what, from, call, body, status, error] of cases) {
      const answer = await from.post(call, body);
      assert.equal(answer.status, status, `${what}: ${answer.text}`);
      assert.equal(answer.type, "application/json", what);
      const refusal = JSON.parse(answer.text);
      assert.equal(refusal.error, error, what);
      assert.equal(typeof refusal.detail, "string", what);
    }
    const nobody = await worker.call("heartbeat", { LEASES: '{"999":null}' });
    assert.deepEqual(nobody, { "999": "stale" });
  });

  await t.step("the store answers as its own does", async () => {
    const absent = `bafkr4i${"a".repeat(52)}`;
    const there = await worker.put("there");
    const unknown = new RecordedWorker(cluster, `plt_${"x".repeat(43)}`);
    const reader = new RecordedWorker(cluster, await cluster.token("rd2", "--access", "read"));
    const cases: [string, Promise<Response>, number, string][] = [
      ["an unknown token", unknown.cas("GET", there), 401, "unauthenticated"],
      ["another access", reader.cas("GET", there), 403, "permission_denied"],
      ["a blob that is not there", worker.cas("GET", absent), 404, "not_found"],
      ["no CID", worker.cas("GET", "zzz"), 400, "invalid_cid"],
      ["other bytes", worker.cas("PUT", there, encoder.encode("other")), 400, "cid_mismatch"],
    ];
    for (const [what, response, status, code] of cases) {
      const answer = await response;
      assert.equal(answer.status, status, what);
      const body = await answer.json();
      assert.deepEqual(Object.keys(body), ["code", "message"], what);
      assert.equal(body.code, code, what);
    }
    const again = await worker.cas("PUT", there, encoder.encode("there"));
    assert.equal(`${again.status} ${await again.text()}`, "201 ");
    const path = new URL("/nothing", cluster.cas);
    const other = await fetch(path, { headers: { authorization: `Bearer ${worker.token}` } });
    assert.equal(other.status, 404);
    assert.equal((await other.json()).code, "not_found");
  });
});
