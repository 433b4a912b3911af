/**
 * @module The gate: format, lint with our rules, types, doc examples and tests. Its last line is `N passed, N failed`.
 *
 * Usage: `deno task test [FILTER…]`: with paths, only those tests run, and nothing else.
 */

import { fileURLToPath } from "node:url";
import { needsTestDefaults } from "./needs_test_defaults.ts";

interface Tally {
  passed: number;
  failed: number;
  skipped: number;
}

const deno = Deno.execPath();
const root = fileURLToPath(new URL("..", import.meta.url));

async function step(name: string, args: string[]): Promise<Tally> {
  console.log(`\n== ${name}: deno ${args.join(" ")}`);
  const { success } = await new Deno.Command(deno, { args, cwd: root, stdin: "null" }).spawn()
    .status;
  console.log(`== ${name}: ${success ? "ok" : "FAILED"}`);
  return { passed: success ? 1 : 0, failed: success ? 0 : 1, skipped: 0 };
}

/** The counts in a JUnit file: deno writes one `testsuite` a file. */
export function countJunit(xml: string): Tally {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 };
  for (const [, attributes = ""] of xml.matchAll(/<testsuite\s([^>]*)>/g)) {
    const count = (key: string) =>
      Number(attributes.match(new RegExp(`\\b${key}="(\\d+)"`))?.[1] ?? 0);
    const failed = count("failures") + count("errors");
    const skipped = count("disabled") + count("skipped");
    tally.failed += failed;
    tally.skipped += skipped;
    tally.passed += count("tests") - failed - skipped;
  }
  return tally;
}

async function test(name: string, args: string[]): Promise<Tally> {
  const junit = await Deno.makeTempFile({ suffix: ".xml" });
  try {
    const defaults = needsTestDefaults(Deno.version.deno)
      ? ["--preload", "scripts/test_defaults.ts"]
      : [];
    const all = ["test", "-A", "--no-check", `--junit-path=${junit}`, ...defaults, ...args];
    console.log(`\n== ${name}: deno ${all.join(" ")}`);
    const { success } = await new Deno.Command(deno, { args: all, cwd: root, stdin: "null" })
      .spawn().status;
    const tally = countJunit(await Deno.readTextFile(junit));
    // A crash outside any test (a module that does not load) fails the run without a failed test in the file.
    if (!success && tally.failed === 0) tally.failed = 1;
    return tally;
  } finally {
    await Deno.remove(junit);
  }
}

async function main(filters: string[]): Promise<number> {
  const tallies: Tally[] = [];
  if (filters.length > 0) {
    tallies.push(await test("tests", filters));
  } else {
    tallies.push(await step("format", ["fmt", "--check", "--quiet"]));
    tallies.push(await step("lint and dependency rules", ["lint", "--quiet"]));
    tallies.push(await step("types", ["check", "--quiet", "main.ts", "lib", "tests", "scripts"]));
    tallies.push(await test("doc examples", ["--doc", "--permit-no-files", "lib"]));
    tallies.push(await test("tests", ["tests"]));
  }
  const sum = tallies.reduce((a, b) => ({
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
  }));
  console.log("");
  if (sum.skipped > 0) console.log(`${sum.skipped} skipped: each names its reason above`);
  console.log(`${sum.passed} passed, ${sum.failed} failed`);
  return sum.failed === 0 && sum.passed > 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
