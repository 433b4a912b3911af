/** @module Our worker joins a server that answers what a piloop 0.3.1 server and store answer, byte for byte. */

import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { Programs } from "../../scripts/demo/programs.ts";
import { until } from "../kit/mod.ts";
import { fill, fixture, shape } from "./protocol_7.ts";

const TOKEN = `plt_${"A".repeat(43)}`;
const encoder = new TextEncoder();

/** A call of the worker's. */
interface Call {
  readonly call: string;
  // deno-lint-ignore no-explicit-any -- a test says what it expects of it
  readonly body: any;
}

/** A server and its store in one, with leases that are handed out in order. */
class RecordedServer implements AsyncDisposable {
  readonly blobs = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly calls: Call[] = [];
  /** Jobs to lease, by their CIDs. */
  readonly queue: string[] = [];
  readonly running = new Set<number>();
  readonly revoking: number[] = [];
  readonly uploads: { readonly length: string | null; readonly status: number }[] = [];
  readonly odd: string[] = [];
  /** Heartbeats that were answered with 500. */
  failures = 0;
  held: string = "[]";
  bundles: string[] = [];
  #leases = 4;
  #messages = 3;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor() {
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen: () => {} },
      (request) => this.#answer(request),
    );
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  put(data: string | Uint8Array<ArrayBuffer>): string {
    const bytes = typeof data === "string" ? encoder.encode(data) : data;
    const cid = String(cidOf(bytes));
    this.blobs.set(cid, bytes);
    return cid;
  }

  /** Be another server, at the same address: no lease is known. */
  forget(): void {
    this.running.clear();
    this.#leases = 0;
  }

  of(call: string): Call["body"][] {
    return this.calls.filter((each) => each.call === call).map(({ body }) => body);
  }

  text(cid: string): string | undefined {
    const bytes = this.blobs.get(cid);
    return bytes && new TextDecoder().decode(bytes);
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (request.headers.get("authorization") !== `Bearer ${TOKEN}`) {
      return json('{"detail":"the token is unknown or revoked"}', 401);
    }
    if (pathname.startsWith("/v1/cas/")) return await this.#cas(request, pathname.slice(8));
    const call = pathname.replace("/v1/executor/", "");
    const body = JSON.parse(await request.text());
    this.calls.push({ call, body });
    return await this.#executor(call, body) ?? json('{"detail":"Not Found"}', 404);
  }

  async #cas(request: Request, cid: string): Promise<Response> {
    const blob = this.blobs.get(cid);
    if (request.method === "PUT") {
      const bytes = await request.bytes();
      const length = request.headers.get("content-length");
      const status = length === null ? 411 : String(cidOf(bytes)) === cid ? 201 : 400;
      this.uploads.push({ length, status });
      if (status === 201) this.blobs.set(cid, bytes);
      return status === 201
        ? new Response(null, { status })
        : json('{"code":"length_required","message":"Content-Length is required"}', status);
    }
    if (blob === undefined) {
      const body = `{"code":"not_found","message":"no blob ${cid}"}`;
      return request.method === "HEAD" ? new Response(null, { status: 404 }) : json(body, 404);
    }
    if (request.method === "HEAD") return new Response(null);
    return new Response(blob, { headers: { "content-type": "application/octet-stream" } });
  }

  async #executor(call: string, body: Call["body"]): Promise<Response | null> {
    switch (call) {
      case "register":
        return json(fill(fixture.answers.register, { HELD: this.held }));
      case "heartbeat": {
        const leases = Object.keys(body.leases).map(Number);
        if (leases.some((lease) => lease > this.#leases)) {
          this.failures++;
          return new Response("Internal Server Error", { status: 500 });
        }
        const answers = leases.map((lease) => {
          const answer = this.revoking.includes(lease) ? "revoked" : "renewed";
          return [lease, this.running.has(lease) ? answer : "stale"];
        });
        return json(JSON.stringify(Object.fromEntries(answers)));
      }
      case "acquire": {
        const job = this.queue.shift();
        if (job === undefined) return json('"nothing"');
        this.running.add(++this.#leases);
        return json(fill(fixture.answers.grant, { LEASE: this.#leases, JOB: job }));
      }
      case "messages":
        return await this.#poll(body.wait);
      case "send":
        return json(JSON.stringify(body.have.length === 0 ? this.bundles : []));
      case "started":
        return new Response(null, { status: 204 });
      case "lost":
      case "report":
        if (!this.running.delete(body.lease)) {
          return json(fill(fixture.answers.stale, { LEASE: body.lease }), 409);
        }
        return call === "lost" ? new Response(null, { status: 204 }) : json(fixture.answers.report);
      default:
        this.odd.push(call);
        return null;
    }
  }

  async #poll(seconds: number): Promise<Response> {
    const ends = performance.now() + Math.min(seconds, 1) * 1000;
    while (performance.now() < ends) {
      const lease = this.revoking.find((each) => this.running.has(each));
      if (this.queue.length > 0) return json(fill(fixture.answers.work, { ID: ++this.#messages }));
      if (lease !== undefined) {
        return json(fill(fixture.answers.revoke, { ID: ++this.#messages, LEASE: lease }));
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return new Response(null, { status: 204 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

function json(body: string, status = 200): Response {
  return new Response(body, { status, headers: { "content-type": "application/json" } });
}

/** A repository of one commit, as the one bundle that a piloop server sends first. */
async function bundled(
  programs: Programs,
  server: RecordedServer,
  script: string,
): Promise<string> {
  const repo = `${programs.root}/repo`;
  await programs.write("repo/evaluate.sh", script);
  await programs.git(repo, "init", "--quiet", "--initial-branch=0");
  await programs.git(repo, "add", "--all");
  await programs.git(repo, "commit", "--quiet", "--message", "one");
  await programs.git(repo, "bundle", "create", "--quiet", "--version=3", "one.bundle", "0");
  const bytes = await Deno.readFile(`${repo}/one.bundle`);
  assert.ok(new TextDecoder("latin1").decode(bytes).startsWith(fixture.bundle_head));
  server.bundles = [server.put(bytes)];
  return (await programs.git(repo, "rev-parse", "HEAD")).trim();
}

const SCRIPT = `echo evaluating
while [ -e "$GATE" ]; do sleep 0.05; done
echo "METRIC score=2"
`;

Deno.test("a worker joins a server that answers as piloop's does", async (t) => {
  await using server = new RecordedServer();
  await using programs = await Programs.make({ binary: null, keep: false });
  const gate = `${programs.root}/gate`;
  const revision = await bundled(programs, server, SCRIPT.replace("$GATE", gate));
  const job = (REPEATS: number) => server.put(fill(fixture.job, { REVISION: revision, REPEATS }));
  await programs.write(
    "w/config.toml",
    `[plugins.cas]\nprovider = "http"\nurl = "${server.url}"\n`,
  );
  const argv = ["worker", "--server", server.url, "--pool", "lab"];
  const env = { SUBLET_HTTPS_TOKEN: TOKEN };
  const ready = /^worker (\S+) in pool lab: connected to/m;

  await t.step("it takes its name and its pace from the server", async () => {
    assert.equal(await programs.background("w", "w", argv, ready, env), "w1");
    const [register] = server.of("register");
    assert.deepEqual(
      { ...register, sample: null, version: null, cas_probe: null, labels: null },
      {
        protocol: 7,
        version: null,
        pool: "lab",
        runners: ["process", "session"],
        sample: null,
        cas_probe: null,
        labels: null,
      },
    );
    assert.ok(server.blobs.has(register.cas_probe));
    await until("it beats", () => server.of("heartbeat").length >= 2);
    assert.deepEqual(shape(server.of("heartbeat")[0]), [
      ["leases", []],
      ["sample", shape(JSON.parse(fixture.sample))],
    ]);
  });

  await t.step("it runs what it is told of, and reports in piloop's words", async () => {
    server.queue.push(job(2));
    const report = await until("it reports", () => server.of("report")[0]);
    assert.equal(report.lease, 5);
    assert.deepEqual(Object.keys(report), ["lease", "request_id", "report"]);
    const { kind, samples, bar_samples: bar, files } = report.report;
    assert.deepEqual(Object.keys(report.report), ["kind", "samples", "bar_samples", "files"]);
    assert.deepEqual([kind, bar], ["evaluation", []]);
    const [recorded] = JSON.parse(fill(fixture.samples.measured, { SCORE: 2 }));
    assert.deepEqual(shape(samples), shape([recorded, recorded]));
    assert.deepEqual(samples.map((sample: typeof recorded) => sample.metrics), [
      { score: 2 },
      { score: 2 },
    ]);
    assert.deepEqual(Object.keys(files).sort(), [
      "candidate-0/eval.stderr",
      "candidate-0/eval.stdout",
      "candidate-1/eval.stderr",
      "candidate-1/eval.stdout",
    ]);
    assert.equal(server.text(files["candidate-1/eval.stdout"]), "evaluating\nMETRIC score=2\n");
    const started = server.of("started");
    assert.equal(started.length, 2);
    assert.deepEqual(shape(started[0]), [
      ["lease", "number"],
      ["handle", [["pgid", "number"], ["start_time", "number"]]],
      ["session_id", "null"],
    ]);
    assert.deepEqual(
      { ...server.of("send")[0], wait: 25 },
      { repo: 1, revisions: [revision], have: [], wait: 25 },
    );
  });

  await t.step("it stops what is revoked, and still reports it", async () => {
    await Deno.writeTextFile(gate, "");
    const starts = server.of("started").length;
    server.queue.push(job(1));
    await until("it starts", () => server.of("started").length > starts);
    server.revoking.push(6);
    const report = await until("it reports", () => server.of("report")[1]);
    assert.equal(report.lease, 6);
    assert.match(report.report.samples[0].error, /revoked/);
    await Deno.remove(gate);
  });

  await t.step("killed and started again, it gives back the lease that it held", async () => {
    await Deno.writeTextFile(gate, "");
    const starts = server.of("started").length;
    const cid = job(1);
    server.queue.push(cid);
    await until("it starts", () => server.of("started").length > starts);
    programs.kill("w");
    await programs.ended("w");
    server.held = fill(fixture.answers.held, { LEASE: 7, JOB: cid });
    await programs.background("w", "w", argv, ready, env);
    const lost = await until("it gives the lease back", () => server.of("lost")[0]);
    assert.deepEqual(shape(lost), [["lease", "number"], ["reason", "string"]]);
    assert.equal(lost.lease, 7);
    await Deno.remove(gate);
    server.held = "[]";
    server.queue.push(cid);
    const report = await until("it runs again", () => server.of("report")[2]);
    assert.deepEqual([report.lease, report.report.samples[0].error], [8, null]);
  });

  await t.step(
    "a server that knows none of its leases fails its heartbeats; it drops them and goes on",
    async () => {
      await Deno.writeTextFile(gate, "");
      const starts = server.of("started").length;
      server.queue.push(job(1));
      await until("it starts", () => server.of("started").length > starts);
      server.forget();
      await until("heartbeats fail", () => server.failures >= 2);
      await Deno.remove(gate);
      const refused = await until("it reports", () => server.of("report")[3]);
      assert.equal(refused.lease, 9);
      server.queue.push(job(1));
      const report = await until("it runs the next", () => server.of("report")[4]);
      assert.deepEqual([report.lease, report.report.samples[0].metrics], [1, { score: 2 }]);
    },
  );

  await t.step("a job of a kind that it does not know is given back with the reason", async () => {
    server.queue.push(server.put('{"kind":"dance","place":"runs/1"}'));
    const lost = await until("it gives the lease back", () => server.of("lost")[1]);
    assert.equal(lost.lease, 2);
    assert.match(lost.reason, /no job of kind "dance"/);
  });

  await t.step("an agent's job that is none is answered with what is wrong", async () => {
    const reports = server.of("report").length;
    server.queue.push(server.put('{"kind":"agent","agent_session":1,"place":"runs/1"}'));
    const answer = await until(
      "it answers",
      () => server.of("lost")[2] ?? server.of("report")[reports],
    );
    assert.match(JSON.stringify(answer), /the job is not valid: artifact/);
  });

  await t.step(
    "every upload had its length, and calls that piloop does not know are no more than one each",
    () => {
      assert.ok(server.uploads.length > 0);
      for (const { length, status } of server.uploads) {
        assert.ok(length !== null && status === 201, `${length} ${status}`);
      }
      // A worker tells what a job writes, and leaves off when the server takes none of it.
      const odd = server.odd.filter((call) => call !== "leave");
      assert.ok(odd.length === 0 || odd.length === 1 && odd[0] === "saved", String(odd));
    },
  );
});

Deno.test("with --once it takes one lease of a server that does not know that word", async () => {
  await using server = new RecordedServer();
  await using programs = await Programs.make({ binary: null, keep: false });
  const revision = await bundled(programs, server, "echo METRIC score=2\n");
  const cid = server.put(fill(fixture.job, { REVISION: revision, REPEATS: 1 }));
  server.queue.push(cid, cid);
  await programs.write(
    "w/config.toml",
    `[plugins.cas]\nprovider = "http"\nurl = "${server.url}"\n`,
  );
  const argv = ["worker", "--server", server.url, "--pool", "lab", "--once"];
  const { code, stderr } = await programs.finish("w", argv, { SUBLET_HTTPS_TOKEN: TOKEN });
  assert.equal(code, 0, stderr);
  assert.equal(server.queue.length, 1);
  assert.deepEqual(server.of("report").map((report) => report.lease), [5]);
});
