/** @module A supervised worker as a real process: what it prints, how signals and refusals end it, and what it leaves. */

import assert from "node:assert/strict";
import { tagged } from "../../lib/lease/machine/process_table.ts";
import { until } from "../kit/mod.ts";
import { Desk, type Program } from "./machine_program.ts";
import { empty, framework, refused } from "./worker_fake_server.ts";

async function ready(program: Program, desk: Desk): Promise<void> {
  await until(
    `it says that it is ready: ${program.stderr}`,
    () => program.stdout.includes(`connected to ${desk.server.url}\n`),
  );
}

Deno.test("a worker says once that it is ready, works, and drains on SIGTERM", async () => {
  await using desk = await Desk.make();
  const program = desk.start();
  await ready(program, desk);
  assert.equal(program.stdout, `worker desk in pool lab: connected to ${desk.server.url}\n`);
  await until("it beats", () => desk.server.of("heartbeat").length >= 3);
  const sample = desk.server.of("heartbeat")[0]?.body["sample"] as Record<string, unknown>;
  assert.match(String(sample["at"]), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  for (const name of ["cpus", "memory_available", "disk_free"]) {
    assert.ok(Number(sample[name]) > 0, name);
  }
  program.signal("SIGTERM");
  const { code } = await program.ended();
  assert.equal(code, 0);
});

Deno.test("a worker gives back a job that it cannot run", async () => {
  await using desk = await Desk.make();
  await desk.grant(4, { kind: "of another time" });
  desk.start();
  const lost = await until("it is lost", () => desk.server.of("lost")[0]);
  assert.equal(lost.body["lease"], 4);
  assert.match(String(lost.body["reason"]), /no job of kind "of another time"/);
});

Deno.test("a worker of one lease says so, gives its report, and leaves", async () => {
  await using desk = await Desk.make();
  await desk.grant(4, { kind: "of another time" });
  const program = desk.start({ once: true });
  assert.equal((await program.ended()).code, 0);
  assert.equal(desk.server.of("register")[0]?.headers.get("sublet-once"), "1");
  assert.equal(desk.server.of("acquire").length, 1);
});

Deno.test("a second SIGTERM stops a worker that a server keeps from draining", async () => {
  await using desk = await Desk.make();
  await desk.grant(4, { kind: "of another time" });
  desk.server.replies["lost"] = () => framework(503, "not now");
  const program = desk.start();
  await until("the lease waits to be given back", () => desk.server.of("lost").length >= 1);
  program.signal("SIGTERM");
  const before = desk.server.of("heartbeat").length;
  await until("it goes on", () => desk.server.of("heartbeat").length > before + 2);
  program.signal("SIGTERM");
  assert.equal((await program.ended()).code, 0);
  const spooled = [...Deno.readDirSync(`${desk.home}/spool/desk`)].map((entry) => entry.name);
  assert.deepEqual(spooled, ["4.json"]);
});

Deno.test("a worker without a server leaves as an orphan", async () => {
  await using desk = await Desk.make();
  const program = desk.start({ server: "http://127.0.0.1:9", orphanExitSeconds: 0.3 });
  assert.equal((await program.ended()).code, 0);
  assert.equal(program.stdout.includes("connected"), false);
});

const REFUSALS: [string, () => Response, number][] = [
  ["an unknown token", () => framework(401, "unknown", { "www-authenticate": "Bearer" }), 4],
  ["a token without access", () => framework(403, "needs worker"), 4],
  ["the name of the server's own worker", () => refused(403, "reserved"), 4],
  ["an unknown pool", () => refused(409, "dismissed", "there is no pool lab"), 8],
  ["another protocol", () => refused(426, "protocol"), 8],
  ["another CAS", () => refused(412, "other_cas"), 8],
  ["another process of its name", () => refused(409, "superseded"), 8],
];
for (const [what, answer, exit] of REFUSALS) {
  Deno.test(`a worker that is refused for ${what} says why and exits with ${exit}`, async () => {
    await using desk = await Desk.make();
    desk.server.replies["register"] = answer;
    const { code, verdict } = await desk.start().ended();
    assert.equal(code, exit);
    assert.match(verdict.end.message ?? "", /refused register/);
  });
}

Deno.test("a worker of the same token on the same home is refused, and one of another token is not", async () => {
  await using desk = await Desk.make();
  const first = desk.start();
  await ready(first, desk);
  const { code, verdict } = await desk.start().ended();
  assert.equal(code, 6);
  assert.match(verdict.end.message ?? "", /another worker process with this token runs/);
  const other = desk.start({ token: "slt_other" });
  await ready(other, desk);
});

Deno.test("a worker that is started again names the dead process that it succeeds", async () => {
  await using desk = await Desk.make();
  const first = desk.start();
  await ready(first, desk);
  await first.kill();
  const second = desk.start();
  await ready(second, desk);
  const [one, two] = desk.server.of("register").map(({ headers }) => headers);
  assert.equal(one?.get("sublet-succeeds"), null);
  assert.equal(two?.get("sublet-succeeds"), one?.get("sublet-incarnation"));
  assert.notEqual(two?.get("sublet-incarnation"), one?.get("sublet-incarnation"));
});

Deno.test("what a killed worker has spooled is sent by the next, once", async () => {
  await using desk = await Desk.make();
  await desk.grant(4, { kind: "of another time" });
  desk.server.replies["lost"] = () => framework(503, "not now");
  const first = desk.start();
  await until("it has spooled", () => desk.server.of("lost").length >= 1);
  await first.kill();
  desk.server.seen.length = 0;
  desk.server.replies["lost"] = empty;
  const second = desk.start();
  await until("the next sends it", () => desk.server.of("lost").length === 1);
  await until("it is gone", () => [...Deno.readDirSync(`${desk.home}/spool/desk`)].length === 0);
  second.signal("SIGTERM");
  assert.equal((await second.ended()).code, 0);
  assert.equal(desk.server.of("lost").length, 1);
});

Deno.test("a Web Worker that dies takes its jobs along, and the process exits with 1", async () => {
  await using desk = await Desk.make();
  const tag = crypto.randomUUID();
  const program = desk.start({ entry: "machine_dying_entry.ts", pool: tag });
  const { code } = await program.ended();
  assert.equal(code, 1);
  assert.match(program.stderr, /worker\.died.*this worker fell over/);
  assert.match(await Deno.readTextFile(`${desk.home}/err`), /^$/);
  assert.deepEqual(await tagged(tag), []);
});
