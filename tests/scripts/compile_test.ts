/** @module The compiled file holds the program and nothing of the machine and the tools that made it. */

import assert from "node:assert/strict";
import { adapt } from "../../scripts/compile_stage.ts";
import { compiledFile } from "../e2e/compiled.ts";

Deno.test("a bundled module loads by URL what the stage holds", () => {
  const met = new Map<string, number>();
  const worker = 'const entry = new URL("./worker_entry.ts", import.meta.url);';
  assert.equal(
    adapt(worker, "chunk-A.js", met),
    'const entry = new URL("./lib/lease/machine/worker_entry.js", import.meta.url);',
  );
  const migration = "read(new URL(`./migrations/${name}`, import.meta.url))";
  assert.equal(
    adapt(migration, "chunk-B.js", met),
    "read(new URL(`./lib/store/migrations/${name}`, import.meta.url))",
  );
  assert.deepEqual([...met.values()], [1, 1]);
});

Deno.test("a module that loads something else by URL is not compiled", () => {
  const text = 'new Worker(new URL("./other_worker.ts", import.meta.url));';
  assert.throws(() => adapt(text, "chunk-A.js", new Map()), /other_worker\.ts.* by URL/);
  const moved = 'new URL("./worker_entry.ts", import.meta.url)';
  assert.throws(() => adapt(moved, "lib/main.js", new Map()), /by URL/);
});

Deno.test("a bundled module names no path of the machine that bundled it", () => {
  const text = [
    "// ../../home/user/.cache/deno/npm/packages.example/zod/4.6.7/v4/core/util.js",
    "var require_util = __commonJS({",
    '  "../../home/user/.cache/deno/npm/packages.example/undici/7.30.2/lib/core/util.js"(exports) {',
    "// lib/home/errors.ts",
  ].join("\n");
  const adapted = [
    "// npm/zod/4.6.7/v4/core/util.js",
    "var require_util = __commonJS({",
    '  "npm/undici/7.30.2/lib/core/util.js"(exports) {',
    "// lib/home/errors.ts",
  ].join("\n");
  assert.equal(adapt(text, "chunk-A.js", new Map()), adapted);
});

Deno.test("undici gets the timers of Node, and our own code those of the web", () => {
  const undici =
    "// ../npm/packages.example/undici/7.30.2/lib/util/timers.js\nsetTimeout(f).unref();";
  assert.match(
    adapt(undici, "pool-A.js", new Map()),
    /^import \{.*setTimeout.*\} from "node:timers"/,
  );
  assert.doesNotMatch(adapt("// lib/net/client.ts\n", "chunk-A.js", new Map()), /node:timers/);
});

const compiled = await compiledFile();
Deno.test({
  name: `the compiled file holds no development dependency and no path of its build${
    compiled.skipped ? ` (SKIPPED: ${compiled.skipped})` : ""
  }`,
  ignore: compiled.path === null,
  fn: async () => {
    const file = new TextDecoder("latin1").decode(await Deno.readFile(compiled.path ?? ""));
    const { denoDir } = JSON.parse(await output(["info", "--json"]));
    const root = new URL("../..", import.meta.url).pathname;
    for (
      const foreign of [
        ...["fast-check", "hash-wasm", "assemblyscript", "sublet-compile-", denoDir, root],
        ...["scripts/compile", "tests/kit"],
      ]
    ) {
      assert.equal(file.indexOf(foreign), -1, `it holds ${foreign}`);
    }
    // What is looked for is what would be found: the program's own text is there as it stands.
    assert.ok(file.includes("lib/lease/machine/worker_entry.ts"));
    assert.ok(file.includes("Lends machines to jobs"));
  },
});

async function output(args: string[]): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args }).output();
  return new TextDecoder().decode(stdout);
}
