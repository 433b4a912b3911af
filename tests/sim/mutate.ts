/** @module Simulating a copy of the code with a fault in it, to see that the simulation sees. */

import type { Mutation } from "./mutations.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** What became of a fault: the seed that saw it and what it saw, or how many seeds did not. */
export interface Caught {
  readonly mutation: Mutation;
  readonly seed: number | null;
  readonly rule: string | null;
}

/** Simulate seeds from `first` on, at most `count`, on a copy of the code with `mutation`. */
export async function tryMutation(
  mutation: Mutation,
  first: number,
  count: number,
): Promise<Caught> {
  const dir = await Deno.makeTempDir({ prefix: "sublet-mutation-" });
  try {
    for (const part of ["lib", "tests/sim", "deno.json", "deno.lock"]) await copy(part, dir);
    for (const { file, find, put } of mutation.edits) {
      const path = `${dir}/lib/lease/${file}`;
      const text = await Deno.readTextFile(path);
      if (!text.includes(find)) {
        throw new Error(`the mutation "${mutation.name}" does not apply to ${file}: ${find}`);
      }
      await Deno.writeTextFile(path, text.replace(find, put));
    }
    return { mutation, ...await simulateCopy(dir, first, count) };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function simulateCopy(
  dir: string,
  first: number,
  count: number,
): Promise<{ seed: number | null; rule: string | null }> {
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "tests/sim/main.ts", `${first}`, `${count}`, "--first"],
    cwd: dir,
    stdin: "null",
  }).output();
  const lines = new TextDecoder().decode(stdout).trim().split("\n");
  const found: { seed?: number; rule?: string; failed?: number } = JSON.parse(lines[0] || "{}");
  if (found.seed === undefined && found.failed === undefined) {
    throw new Error(`the copy did not run: ${new TextDecoder().decode(stderr)}`);
  }
  return { seed: found.seed ?? null, rule: found.rule ?? null };
}

async function copy(part: string, dir: string): Promise<void> {
  const from = `${ROOT}/${part}`;
  if ((await Deno.stat(from)).isFile) return await Deno.copyFile(from, `${dir}/${part}`);
  await Deno.mkdir(`${dir}/${part}`, { recursive: true });
  for await (const entry of Deno.readDir(from)) await copy(`${part}/${entry.name}`, dir);
}

/** Try all of `mutations`, `atOnce` at a time. */
export async function tryMutations(
  mutations: readonly Mutation[],
  first: number,
  count: number,
  atOnce: number,
  say: (caught: Caught) => void,
): Promise<Caught[]> {
  const left = [...mutations];
  const done: Caught[] = [];
  const work = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const caught = await tryMutation(next, first, count);
      done.push(caught);
      say(caught);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return done;
}
