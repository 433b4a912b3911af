/** @module The rules that keep the core pure and the folders in order can see what they must, and nothing else. */

import assert from "node:assert/strict";
import { importFault, isCore } from "../../scripts/lint_rules.ts";
import { TempDir } from "../kit/mod.ts";

Deno.test("one-way admits imports of the own folder and of doors to the left", () => {
  assert.equal(importFault("lib/lease/engine.ts", "./wire.ts"), null);
  assert.equal(importFault("lib/lease/engine.ts", "../home/mod.ts"), null);
  assert.equal(importFault("lib/lease/engine.ts", "zod"), null);
  assert.equal(importFault("lib/cli/worker_command.ts", "../lease/machine/mod.ts"), null);
  assert.equal(importFault("lib/lease/mod.ts", "./machine/mod.ts"), null);
  assert.equal(importFault("lib/lease/machine/spool.ts", "../../home/mod.ts"), null);
});

Deno.test("one-way refuses imports to the right, past a door, and out of lib", () => {
  assert.match(
    importFault("lib/cas/disk.ts", "../lease/mod.ts") ?? "",
    /may not depend on lib\/lease/,
  );
  assert.match(importFault("lib/lease/engine.ts", "../home/errors.ts") ?? "", /door/);
  assert.match(importFault("lib/cli/a.ts", "../lease/machine/supervisor.ts") ?? "", /door/);
  assert.match(importFault("lib/job/a.ts", "../lease/machine/mod.ts") ?? "", /may not depend/);
  assert.match(
    importFault("lib/home/config.ts", "../../tests/kit/mod.ts") ?? "",
    /nothing of tests/,
  );
  assert.match(importFault("lib/lease/engine.ts", "./machine/spool.ts") ?? "", /machine adapters/);
  assert.match(importFault("lib/lease/engine.ts", "node:fs") ?? "", /touches no machine/);
});

Deno.test("the core is lib/lease without its machine folder, and the scaler", () => {
  assert.equal(isCore("lib/lease/engine.ts"), true);
  assert.equal(isCore("lib/lease/machine/processes.ts"), false);
  assert.equal(isCore("lib/provision/scaler.ts"), true);
  assert.equal(isCore("lib/net/tokens.ts"), false);
});

async function lint(source: string): Promise<string> {
  await using dir = await TempDir.make();
  await Deno.mkdir(dir.join("lib/lease"), { recursive: true });
  await Deno.writeTextFile(dir.join("lib/lease/probe.ts"), source);
  const plugin = new URL("../../scripts/lint_rules.ts", import.meta.url).href;
  await Deno.writeTextFile(dir.join("deno.json"), JSON.stringify({ lint: { plugins: [plugin] } }));
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["lint", "lib/lease/probe.ts"],
    cwd: dir.path,
    env: { NO_COLOR: "1" },
  }).output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

for (
  const source of [
    "export const a = Date.now();",
    "export const a = new Date(0);",
    "export const a = Math.random();",
    "export const a = () => setTimeout(() => {}, 1);",
    "export const a = crypto.randomUUID();",
    "export const a = () => Deno.exit(1);",
    "export const a = globalThis.performance;",
    "export const a = () => fetch;",
  ]
) {
  Deno.test(`core-ports refuses in lib/lease: ${source}`, async () => {
    assert.match(await lint(source), /sublet\/core-ports/);
  });
}

Deno.test("core-ports admits a port's members of the same names", async () => {
  const source =
    "export interface P { now(): number; crypto: string }\nexport const a = (p: P) => p.now() + p.crypto.length;\n";
  assert.doesNotMatch(await lint(source), /sublet\//);
});
