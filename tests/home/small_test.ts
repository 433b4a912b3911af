import assert from "node:assert/strict";
import { logLine, nearest, SubletError, systemClock, systemIds } from "../../lib/home/mod.ts";

Deno.test("a log line is one line of JSON with the time, the event and its fields", () => {
  const line = logLine(0, "worker.joined", {
    name: "a\nb",
    error: new SubletError("conflict", "taken", { cause: new Error("why") }),
    big: 10n,
    bytes: new Uint8Array(3),
    long: "x".repeat(10_000),
  });
  assert.equal(line.indexOf("\n"), line.length - 1);
  const { long, ...rest } = JSON.parse(line);
  assert.equal(long.length, 8193);
  assert.deepEqual(rest, {
    at: "1970-01-01T00:00:00.000Z",
    event: "worker.joined",
    name: "a\nb",
    error: { code: "conflict", message: "taken", cause: { message: "why" } },
    big: "10",
    bytes: "3 bytes",
  });
});

Deno.test("a log line of something that JSON cannot hold is still a line", () => {
  const loop: Record<string, unknown> = {};
  loop.self = loop;
  assert.equal(JSON.parse(logLine(0, "x", { loop })).event, "x");
});

Deno.test("sleep ends at once when its signal aborts, before or during it", async () => {
  await systemClock.sleep(1e12, AbortSignal.abort());
  const abort = new AbortController();
  const slept = systemClock.sleep(1e12, abort.signal);
  abort.abort();
  await slept;
  await systemClock.sleep(0);
  await systemClock.sleep(-5);
});

Deno.test("after runs once, and not when it is cancelled", async () => {
  const ran: string[] = [];
  systemClock.after(1e12, () => ran.push("far"))();
  const cancel = systemClock.after(0, () => ran.push("cancelled"));
  cancel();
  await new Promise<void>((resolve) =>
    systemClock.after(1, () => {
      ran.push("near");
      resolve();
    })
  );
  assert.deepEqual(ran, ["near"]);
});

Deno.test("time goes on, ids differ, and jitter is below one", () => {
  assert.ok(systemClock.monotonic() <= systemClock.monotonic());
  assert.ok(Math.abs(systemClock.now() - Date.now()) < 60_000);
  assert.match(systemIds.uuid(), /^[0-9a-f]{8}-[0-9a-f]{4}-4/);
  assert.notEqual(systemIds.uuid(), systemIds.uuid());
  const random = systemIds.random();
  assert.ok(random >= 0 && random < 1);
});

Deno.test("nearest finds the word that was mistyped, and nothing when none is near", () => {
  const words = ["renew_seconds", "grace_seconds", "pools", "provider"];
  for (
    const [typed, meant] of [
      ["renew_second", "renew_seconds"],
      ["pool", "pools"],
      ["poosl", "pools"],
      ["Provider", "provider"],
      ["greace_secnods", "grace_seconds"],
    ] as const
  ) {
    assert.equal(nearest(typed, words), meant);
  }
  assert.equal(nearest("completely_else", words), null);
  assert.equal(nearest("x", []), null);
});
