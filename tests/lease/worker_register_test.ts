/** @module A worker under a virtual clock: how it makes itself known, and again. */

import assert from "node:assert/strict";
import { type ErrorCode, SubletError } from "../../lib/home/mod.ts";
import { UnexplainedStatus } from "../../lib/lease/http_client_refusal.ts";
import { Superseded } from "../../lib/lease/superseded.ts";
import { settle } from "../kit/virtual_clock.ts";
import { Bench, hanging, TIMING, unreachable } from "./worker_kit.ts";

function refusal(code: ErrorCode): SubletError {
  return new SubletError(code, code);
}

Deno.test("registration is tried until the server answers, with the same probe", async () => {
  const bench = new Bench();
  let tries = 0;
  const normal = { worker: "desk", timing: TIMING, held: [], cursor: 0 };
  bench.server.on["register"] = () => {
    tries++;
    if (tries === 1) throw unreachable();
    if (tries === 2) throw new UnexplainedStatus(404, "a page");
    if (tries === 3) throw refusal("unavailable");
    return normal;
  };
  let ready = 0;
  const started = await bench.start({ onRegistered: () => ready++ });
  await bench.clock.advance(10_000);
  assert.equal(tries, 4);
  assert.equal(ready, 1);
  assert.equal(new Set(bench.server.of("register").map((info) => info["casProbe"])).size, 1);
  await started.close(bench);
});

Deno.test("a worker that is not taken in says why once a minute, and at once when the reason changes", async () => {
  const bench = new Bench();
  let error: Error = unreachable();
  bench.server.on["register"] = () => {
    throw error;
  };
  const started = await bench.start();
  await bench.clock.advance(50_000);
  const said = () => bench.logged("worker.not_registered").length;
  assert.equal(said(), 1);
  error = refusal("unavailable");
  await bench.clock.advance(6_000);
  assert.equal(said(), 2);
  await bench.clock.advance(70_000);
  assert.equal(said(), 3);
  await started.close(bench);
});

Deno.test("a CAS that is away delays the registration", async () => {
  const bench = new Bench();
  const put = bench.cas.put.bind(bench.cas);
  let away = true;
  bench.cas.put = (bytes) => away ? Promise.reject(refusal("unavailable")) : put(bytes);
  const started = await bench.start();
  await bench.clock.advance(20_000);
  assert.deepEqual(bench.server.of("register"), []);
  away = false;
  await bench.clock.advance(5_000);
  assert.equal(bench.server.of("register").length, 1);
  await started.close(bench);
});

Deno.test("whoever waits for a worker whose CAS does not answer is told so before it is given up", async () => {
  const bench = new Bench();
  const put = bench.cas.put.bind(bench.cas);
  const { promise, resolve } = Promise.withResolvers<void>();
  bench.cas.put = (bytes) => promise.then(() => put(bytes));
  const started = await bench.start();
  await bench.clock.advance(4_900);
  assert.equal(bench.logged("worker.store_slow").length, 0);
  await bench.clock.advance(200);
  assert.equal(bench.logged("worker.store_slow").length, 1);
  resolve();
  await settle();
  await bench.clock.advance(60_000);
  assert.equal(bench.server.of("register").length, 1);
  assert.equal(bench.logged("worker.store_slow").length, 1);
  await started.close(bench);
});

Deno.test("a CAS that refuses the credential leaves it to the server to say what that means", async () => {
  const bench = new Bench();
  bench.cas.put = () => Promise.reject(refusal("unauthenticated"));
  const unknown = refusal("unauthenticated");
  bench.server.on["register"] = () => Promise.reject(unknown);
  const started = await bench.start();
  assert.deepEqual(started.end, { how: "refused", error: unknown });

  const other = new Bench();
  const casRefusal = refusal("permission_denied");
  other.cas.put = () => Promise.reject(casRefusal);
  other.server.on["register"] = () => Promise.reject(refusal("other_cas"));
  const second = await other.start();
  assert.deepEqual(second.end, { how: "refused", error: casRefusal });
});

for (const code of ["invalid_body", "invalid_request", "dismissed", "other_cas"] as const) {
  Deno.test(`a registration that is refused as ${code} ends the worker`, async () => {
    const bench = new Bench();
    const error = refusal(code);
    bench.server.on["register"] = () => Promise.reject(error);
    const started = await bench.start();
    assert.deepEqual(started.end, { how: "refused", error });
  });
}

Deno.test("a name that cannot be a directory here ends the worker", async () => {
  for (const name of ["..", "a/b", "", "a\0b", "/etc", "a\nb", ".git"]) {
    const bench = new Bench();
    bench.server.on["register"] = () => ({ worker: name, timing: TIMING, held: [], cursor: 0 });
    const started = await bench.start();
    assert.equal(started.end?.how, "refused", JSON.stringify(name));
    assert.deepEqual(bench.server.of("heartbeat"), []);
  }
});

Deno.test("a restarted process offers itself as the successor of each dead one that may be known", async () => {
  const bench = new Bench();
  bench.server.on["register"] = (info) => {
    if ((info as { succeeds: string }).succeeds !== "older") throw refusal("superseded");
    return { worker: "desk", timing: TIMING, held: [], cursor: 0 };
  };
  let remembered = 0;
  const started = await bench.start({
    incarnation: {
      id: "this",
      succeeds: ["newer", "older"],
      registered: () => {
        remembered++;
        return Promise.resolve();
      },
    },
  });
  assert.deepEqual(bench.server.of("register").map((info) => info["succeeds"]), ["newer", "older"]);
  assert.equal(remembered, 1);
  assert.equal(started.end, null);
  await started.close(bench);
});

Deno.test("a process that no server takes for the living one ends, and says so", async () => {
  const bench = new Bench();
  bench.server.on["register"] = () => Promise.reject(refusal("superseded"));
  const started = await bench.start({
    incarnation: { id: "this", succeeds: ["dead"], registered: () => Promise.resolve() },
  });
  assert.equal(started.end?.how, "refused");
});

Deno.test("a process whose name a silent one has waits for it, and then works", async () => {
  const bench = new Bench();
  bench.server.on["register"] = () => {
    const left = 50 - bench.clock.monotonic() / 1000 + start / 1000;
    if (left > 0) throw new Superseded("another process works as desk", Math.ceil(left));
    return { worker: "desk", timing: TIMING, held: [], cursor: 0 };
  };
  const start = bench.clock.monotonic();
  const started = await bench.start();
  await bench.clock.advance(49_000);
  assert.deepEqual([started.end, bench.server.of("acquire")], [null, []]);
  await bench.clock.advance(7_000);
  assert.equal(bench.server.of("acquire").length, 1);
  assert.equal(started.end, null);
  await started.close(bench);
});

Deno.test("a process whose name a living one has ends once that was heard again", async () => {
  const bench = new Bench();
  const start = bench.clock.monotonic();
  bench.server.on["register"] = () => {
    // The other one beats every ten seconds.
    const silent = (bench.clock.monotonic() - start) / 1000 % 10;
    throw new Superseded("another process works as desk", Math.ceil(50 - silent));
  };
  const started = await bench.start();
  await bench.clock.advance(12_000);
  assert.equal(started.end?.how === "refused" && started.end.error.code, "superseded");
});

Deno.test("a process that was replaced while it worked does not wait for its name", async () => {
  const bench = new Bench();
  const started = await bench.start();
  bench.server.on["heartbeat"] = () => Promise.reject(new Superseded("replaced", 50));
  await bench.clock.advance(11_000);
  assert.equal(started.end?.how, "refused");
});

Deno.test("a worker that ends says so last, and ends though nobody hears it", async () => {
  const bench = new Bench();
  const said: number[] = [];
  const server = Object.assign(bench.server, {
    leave: () => {
      said.push(bench.server.calls.length);
      return Promise.reject(refusal("not_found"));
    },
  });
  const started = await bench.start({ client: server });
  await started.close(bench);
  assert.deepEqual(started.end, { how: "stopped" });
  assert.deepEqual(said, [bench.server.calls.length]);

  const hung = new Bench();
  const deaf = Object.assign(hung.server, { leave: () => hanging<void>() });
  const other = await hung.start({ client: deaf });
  other.worker.drain();
  await hung.clock.advance(3_000);
  assert.deepEqual(other.end, { how: "drained" });
});

Deno.test("a worker that was refused says no goodbye: its name may be another's", async () => {
  const bench = new Bench();
  let said = 0;
  const leave = () => {
    said++;
    return Promise.resolve();
  };
  const started = await bench.start({ client: Object.assign(bench.server, { leave }) });
  bench.server.on["heartbeat"] = () => Promise.reject(refusal("superseded"));
  await bench.clock.advance(11_000);
  assert.equal(started.end?.how, "refused");
  assert.equal(said, 0);
});

Deno.test("a worker that the server forgot registers again and keeps its running jobs", async () => {
  const bench = new Bench();
  const grant = await bench.grant(1);
  bench.server.queue.push(grant);
  const started = await bench.start();
  bench.server.on["heartbeat"] = () => Promise.reject(refusal("unknown_worker"));
  bench.server.held = [grant, await bench.grant(2)];
  bench.server.cursor = 77;
  await bench.clock.advance(10_000);
  bench.server.on = {};
  await bench.clock.advance(1_000);
  assert.ok(bench.server.of("register").length >= 2);
  assert.deepEqual(bench.runner.jobs.map((job) => [job.lease, job.how]), [[1, "run"], [
    2,
    "recover",
  ]]);
  assert.equal(bench.runner.job(1).control.stop.aborted, false);
  bench.server.queue.push(await bench.grant(3));
  await bench.clock.advance(26_000);
  assert.equal(bench.server.of("messages").at(-1)?.["after"], 77);
  assert.equal(bench.runner.job(3).how, "run");
  await started.close(bench);
});

Deno.test("what the server says is held is recovered, with its handle and start", async () => {
  const bench = new Bench();
  const handle = { pgid: 12, start_time: 34 };
  bench.server.held = [{
    ...await bench.grant(4),
    handle,
    started_at: "2030-01-01T00:00:00Z",
  }];
  let given: unknown;
  bench.runner.recover = (_job, held) => {
    given = held;
    return Promise.resolve({ lost: "it was killed with the last process" });
  };
  const started = await bench.start();
  await settle();
  assert.deepEqual(given, { handle, startedAt: "2030-01-01T00:00:00Z" });
  assert.deepEqual(bench.server.of("lost").map((args) => args["lease"]), [4]);
  assert.deepEqual(bench.runner.cleaned, [4]);
  await started.close(bench);
});
