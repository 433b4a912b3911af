/** @module What README.md says is there: each race and gap has a test, each rule is one, each mutation is listed. */

import assert from "node:assert/strict";
import { MUTATIONS } from "./mutations.ts";

const here = (path: string) => new URL(path, import.meta.url);
const readme = await Deno.readTextFile(here("README.md"));
const rows = readme.split("\n").filter((line) => line.startsWith("| ")).map((line) =>
  line.split("|").map((cell) => cell.trim())
);

Deno.test("every race and gap names tests that are there", async () => {
  const wanted = [
    ...Array.from({ length: 43 }, (_, index) => `${index + 1}`),
    ...Array.from({ length: 21 }, (_, index) => `C${index + 1}`),
  ];
  const found = rows.filter(([, name = ""]) => /^(C?\d+) [a-z]/.test(name));
  assert.deepEqual(found.map(([, name = ""]) => name.split(" ")[0]), wanted);
  for (const [, name, tests = ""] of found) {
    const named = [...tests.matchAll(/`([^`]+)` "([^"]+)"/g)];
    assert(named.length > 0, name);
    for (const [, file = "", test = ""] of named) {
      const text = await Deno.readTextFile(here(file));
      const titles = [...text.matchAll(/(?:Deno\.test\(|name: )["`]([^"`]+)/g)];
      assert(
        titles.some(([, title]) => title?.startsWith(test)),
        `${name}: ${file} has no "${test}"`,
      );
    }
  }
});

Deno.test("every rule that is named is one, and every one is named", async () => {
  const files = ["rules", "watch", "runs", "simulate", "simulation", "worker", "world"];
  const texts = await Promise.all(files.map((file) => Deno.readTextFile(here(`${file}.ts`))));
  const rules = new Set(
    texts.flatMap((text) =>
      [...text.matchAll(/broken\(\s*"([^"]+)"|^ {2}"([^"]+)": \(/gm)].map(([, a, b]) => a ?? b)
    ),
  );
  rules.delete("the simulation itself does not fail");
  const from = readme.indexOf("## The rules");
  const table = readme.slice(from, readme.indexOf("\n## ", from + 1));
  const named = new Set([...table.matchAll(/"([^"]+)"/g)].map(([, rule]) => rule));
  assert.deepEqual([...named].sort(), [...rules].sort());
});

Deno.test("every fault that is put into the code is listed with the seed that sees it", () => {
  const listed = new Map(rows.map(([, name, seed]) => [name, seed]));
  for (const { name } of MUTATIONS) {
    assert.match(listed.get(name) ?? "absent", /^\d+$|^none in \d+$/, name);
  }
});
