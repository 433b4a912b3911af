/**
 * @module Make `dist/sublet-TARGET`, one self-contained file: `deno task compile [--all | TARGET…] [--out DIR]`.
 *
 * `DENORT_BIN` (one denort) or `DENORT_DIR` (a directory with `denort-TARGET` files, and optionally the `deno` of the
 * same version to compile with) is honoured; otherwise `deno compile` downloads its own.
 */

import { fileURLToPath } from "node:url";
import { V8_FLAGS } from "./v8_flags.ts";
import { INCLUDES, MAIN, makeStage } from "./compile_stage.ts";

const TARGETS = [
  "x86_64-unknown-linux-gnu",
  "aarch64-unknown-linux-gnu",
  "x86_64-apple-darwin",
  "aarch64-apple-darwin",
  "x86_64-pc-windows-msvc",
];
const root = fileURLToPath(new URL("..", import.meta.url));

async function run(
  program: string,
  args: string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<void> {
  const { success, code } = await new Deno.Command(program, { args, cwd, env, stdin: "null" })
    .spawn().status;
  if (!success) throw new Error(`${program} ${args.join(" ")} exited with ${code}`);
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

/** The deno to compile with, and the environment that names a denort for `target`. */
async function toolFor(target: string): Promise<{ deno: string; env: Record<string, string> }> {
  const dir = Deno.env.get("DENORT_DIR");
  if (dir === undefined) return { deno: Deno.execPath(), env: {} };
  const denort = await Deno.realPath(`${dir}/denort-${target}`).catch(() => {
    throw new Error(`DENORT_DIR=${dir} holds no denort-${target}`);
  });
  const own = `${dir}/deno`;
  return {
    deno: await exists(own) ? await Deno.realPath(own) : Deno.execPath(),
    env: { DENORT_BIN: denort },
  };
}

/** Make the file for `target` from `stage`, and return its path. */
async function compile(stage: string, target: string, out: string): Promise<string> {
  const { deno, env } = await toolFor(target);
  const output = `${out}/sublet-${target}${target.includes("windows") ? ".exe" : ""}`;
  const includes = INCLUDES.flatMap((path) => ["--include", path]);
  await run(
    deno,
    [
      "compile",
      "--quiet",
      "-A",
      // What a worker may not do is refused, and never asked for on a terminal.
      "--no-prompt",
      `--v8-flags=${V8_FLAGS}`,
      "--no-check",
      ...includes,
      "--target",
      target,
      "--output",
      output,
      MAIN,
    ],
    stage,
    env,
  );
  return output;
}

function hostTarget(): string {
  return Deno.build.target;
}

async function main(args: string[]): Promise<void> {
  const outAt = args.indexOf("--out");
  const out = outAt >= 0 ? args.splice(outAt, 2)[1] : `${root}dist`;
  if (out === undefined) throw new Error("--out needs a directory");
  const targets = args.includes("--all") ? TARGETS : args.length > 0 ? args : [hostTarget()];
  for (const target of targets) {
    if (!TARGETS.includes(target)) {
      throw new Error(`no such target: ${target}. Targets: ${TARGETS.join(", ")}`);
    }
  }
  await Deno.mkdir(out, { recursive: true });
  const stage = await Deno.makeTempDir({ prefix: "sublet-compile-" });
  try {
    await makeStage(root, stage);
    for (const target of targets) {
      const output = await compile(stage, target, await Deno.realPath(out));
      const { size } = await Deno.stat(output);
      console.log(`${output}\t${(size / 1e6).toFixed(1)} MB`);
    }
  } finally {
    await Deno.remove(stage, { recursive: true });
  }
}

if (import.meta.main) await main([...Deno.args]);
