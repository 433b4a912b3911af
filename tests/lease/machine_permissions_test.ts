/** @module What the Web Worker of a worker can do, and what it gets of its supervisor: from source and compiled. */

import assert from "node:assert/strict";
import { compileProgram, Desk, type ProgramOptions, toolchain } from "./machine_program.ts";

const MAY = ["read the home", "write the home", "dial the server"];
const DENIED = [
  "read elsewhere",
  "read above the home",
  "write elsewhere",
  "link to elsewhere",
  "dial elsewhere",
  "fetch elsewhere",
  "run a program",
  "signal a process",
  "read a variable",
  "read all variables",
  "ask the system",
  "open a library",
  "read the kernel's files",
  "start a worker with more",
];

/** What the supervisor answers. */
const ASKED = {
  "start in the home": "yes",
  "start where output is": "conflict",
  "start elsewhere": "unsafe_path",
  "start above": "unsafe_path",
  "output elsewhere": "unsafe_path",
  "output through a link": "unsafe_path",
  "a credential": "invalid_request",
  "git": "yes",
  "git elsewhere": "unsafe_path",
  "git of another kind": "permission_denied",
  "git with a program of its own": "permission_denied",
  "git of a directory elsewhere": "unsafe_path",
  "another script": "permission_denied",
  "a link elsewhere": "unsafe_path",
  "another helper": "permission_denied",
  "input elsewhere": "unsafe_path",
  "write through a link": "unsafe_path",
  "stop a stranger": "permission_denied",
  "a malformed call": "invalid_request",
  "the host's sample": "yes",
};

async function probe(desk: Desk, options: ProgramOptions): Promise<void> {
  await Deno.writeTextFile(`${desk.home}/given`, "");
  await Deno.writeTextFile(desk.dir.join("secret"), "");
  await Deno.symlink("/tmp", `${desk.home}/out`);
  await Deno.symlink(desk.dir.join("through"), `${desk.home}/link`);
  const program = desk.start({
    entry: "machine_probe_entry.ts",
    env: { SUBLET_HTTPS_TOKEN: "slt_secret" },
    ...options,
  });
  const { code, verdict } = await program.ended();
  assert.equal(code, 0, program.stderr);
  const found = JSON.parse(await Deno.readTextFile(`${desk.home}/probe.json`));
  const { "import from the net": imported, ...local } = found.local;
  // A compiled file knows no loader for it at all.
  assert.ok(["NotCapable", "TypeError"].includes(imported), imported);
  assert.deepEqual(local, {
    ...Object.fromEntries(MAY.map((what) => [what, "yes"])),
    ...Object.fromEntries(DENIED.map((what) => [what, "NotCapable"])),
    "get more": "Error",
  });
  assert.deepEqual(found.asked, ASKED);
  const { read, run, import: module, ...given } = verdict.main;
  assert.deepEqual([read, run], ["yes", "yes"]);
  assert.deepEqual(given, { write: "NotCapable", net: "NotCapable", ffi: "NotCapable" });
  assert.notEqual(module, "yes");
  const outside = [...Deno.readDirSync(desk.dir.path)].map((entry) => entry.name).sort();
  assert.deepEqual(outside.filter((name) => name !== "program"), ["home", "secret"]);
}

Deno.test("a worker's Web Worker uses its home and its server, and is denied everything else", async () => {
  await using desk = await Desk.make();
  await probe(desk, {});
});

const tools = toolchain();
if (tools === null) {
  console.log("SKIPPED: what a worker is denied in a compiled file (set SUBLET_TEST_TOOLCHAIN)");
}

Deno.test({
  name: "in a compiled file a worker's Web Worker is denied the same",
  ignore: tools === null,
  fn: async () => {
    if (tools === null) return;
    await using desk = await Desk.make();
    const binary = desk.dir.join("program");
    await compileProgram(tools, ["./machine_probe_entry.ts"], binary);
    await probe(desk, { binary });
  },
});
