/**
 * @module Measure, and print a table: `deno task bench [NAME…]` with names of `agent`, `cas`, `lease`, `scale`,
 * `system`. A benchmark is never a test: nothing fails because a machine is slow.
 */

import type { Figure } from "../tests/bench/figure.ts";

const SUITES: Readonly<Record<string, () => Promise<{ run(): Promise<Figure[]> }>>> = {
  agent: () => import("../tests/bench/agent_bench.ts"),
  cas: () => import("../tests/bench/cas_bench.ts"),
  lease: () => import("../tests/bench/lease_bench.ts"),
  scale: () => import("../tests/bench/scale_bench.ts"),
  system: () => import("../tests/bench/system_bench.ts"),
};

function number(value: number): string {
  if (Number.isNaN(value)) return "-";
  return value >= 100
    ? Math.round(value).toLocaleString("en-GB")
    : String(Number(value.toPrecision(3)));
}

function print(figures: readonly Figure[]): void {
  const rows = figures.map((figure) => [
    figure.name,
    `${number(figure.value)} ${figure.unit}`,
    figure.target ?? "",
    figure.conditions,
  ]);
  const all = [["what", "figure", "to reach", "conditions"], ...rows];
  const widths = [0, 1, 2].map((i) => Math.max(...all.map((row) => (row[i] ?? "").length)));
  for (const row of all) {
    console.log(row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd());
  }
}

async function main(names: readonly string[]): Promise<number> {
  const chosen = names.length === 0 ? Object.keys(SUITES) : names;
  const { deno } = Deno.version;
  console.log(`${navigator.hardwareConcurrency} cores, ${Deno.build.target}, deno ${deno}\n`);
  for (const name of chosen) {
    const load = SUITES[name];
    if (load === undefined) {
      console.error(`no such suite: ${name}. Suites: ${Object.keys(SUITES).join(", ")}`);
      return 2;
    }
    print(await (await load()).run());
    console.log("");
  }
  return 0;
}

Deno.exit(await main(Deno.args));
