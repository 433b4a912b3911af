/** @module The demo's own exit code is its proof: once from source, once as the compiled file. */

import assert from "node:assert/strict";
import { compiledFile } from "./compiled.ts";

async function demo(args: string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-check",
      new URL("../../scripts/demo.ts", import.meta.url).pathname,
      ...args,
    ],
    env: { NO_COLOR: "1" },
  }).output();
  const text = new TextDecoder().decode(stdout);
  assert.equal(code, 0, text + new TextDecoder().decode(stderr));
  return text;
}

Deno.test("the demo measures every commit once although a worker is killed", async () => {
  const text = await demo([]);
  assert.match(text, /killed with SIGKILL/);
  assert.match(text, /counted once/);
  assert.match(text, /7 commits, each with exactly one accepted result/);
});

const compiled = await compiledFile();
Deno.test({
  name: `the demo passes with the compiled file${
    compiled.skipped ? ` (SKIPPED: ${compiled.skipped})` : ""
  }`,
  ignore: compiled.path === null,
  fn: async () => {
    assert.match(
      await demo(["--binary", compiled.path ?? ""]),
      /7 commits, each with exactly one accepted result/,
    );
  },
});
