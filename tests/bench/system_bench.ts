/** @module Figures of the whole system, with the compiled file where a toolchain is at hand: start, memory, latency. */

import { Cluster, type EvaluationResult } from "../e2e/cluster.ts";
import { compiledFile } from "../e2e/compiled.ts";
import type { Figure } from "./figure.ts";

const EVALUATIONS = 60;

/** Resident memory of a process, MB. */
async function residentMegabytes(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? NaN) * 1024 / 1e6;
}

function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? NaN;
}

async function timed(run: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await run();
  return performance.now() - from;
}

/** The figures. */
export async function run(): Promise<Figure[]> {
  const { path, skipped } = await compiledFile();
  const what = path === null ? `from source (${skipped})` : "compiled file, deno 2.6.10";
  await using cluster = await Cluster.make({ binary: path });
  const figures: Figure[] = [];
  const add = (name: string, value: number, unit: string, conditions: string, target?: string) =>
    figures.push({ name, value, unit, conditions, ...(target === undefined ? {} : { target }) });

  const versions = [];
  for (let i = 0; i < 10; i++) {
    versions.push(await timed(() => cluster.programs.sublet("server", ["version"])));
  }
  add("sublet version", Math.min(...versions), "ms", `${what}; best of 10, spawn included`);
  add(
    "server ready",
    await timed(() => cluster.serve()),
    "ms",
    `${what}; empty home, to its line`,
    "<= 300",
  );
  await cluster.serveCas();
  const revisions = await cluster.campaign([1, 2, 3, 4]);
  await cluster.open();
  const ready = timed(() => cluster.worker("ant"));
  add("worker connected", await ready, "ms", `${what}; token made and worker started`);
  await new Promise((resolve) => setTimeout(resolve, 3000));
  add(
    "server idle memory",
    await residentMegabytes(cluster.programs.pid("server")),
    "MB",
    `${what}; VmRSS`,
    "< 100",
  );
  add(
    "worker idle memory",
    await residentMegabytes(cluster.programs.pid("ant")),
    "MB",
    `${what}; VmRSS`,
    "< 100",
  );

  const results: number[] = [];
  const leases: number[] = [];
  const starts: number[] = [];
  for (let i = 0; i < EVALUATIONS; i++) {
    const from = performance.now();
    const revision = revisions[i % revisions.length];
    const { evaluations: [queued] } = await cluster.api<{ evaluations: EvaluationResult[] }>(
      "POST",
      "/v1/evaluations",
      { campaign: "steps", revisions: [revision] },
    );
    if (queued === undefined) throw new Error("nothing was queued");
    await cluster.api("GET", `/v1/evaluations/${queued.evaluation}?wait=25`);
    results.push(performance.now() - from);
    const job = await cluster.job(queued.job);
    const [lease] = job.leases;
    const after = (time: string | null | undefined) =>
      Date.parse(time ?? "") - Date.parse(lease?.queued_at ?? "");
    leases.push(after(lease?.acquired_at));
    starts.push(after(lease?.started_at));
  }
  const warm = (values: number[]) => values.slice(5).toSorted((a, b) => a - b);
  const conditions = `${what}; one remote worker, one after another, n=${EVALUATIONS - 5}`;
  add("submit to lease, p50", quantile(warm(leases), 0.5), "ms", conditions, "<= 15");
  add("submit to lease, p99", quantile(warm(leases), 0.99), "ms", conditions);
  const started = `${conditions}; checked out and its process runs`;
  add("submit to start, p50", quantile(warm(starts), 0.5), "ms", started);
  add("submit to start, p99", quantile(warm(starts), 0.99), "ms", started);
  add(
    "submit to result, p50",
    quantile(warm(results), 0.5),
    "ms",
    `${conditions}; prints its metric only`,
    "<= 80",
  );
  add("submit to result, p99", quantile(warm(results), 0.99), "ms", conditions);
  return figures;
}
