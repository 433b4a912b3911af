/**
 * @module The main job, end to end on this machine: seven commits of a classifier of penguins, measured on two workers,
 * one of which is killed midway. `deno task demo [--binary FILE] [--keep]`.
 *
 * Exits with 0 only when every commit has exactly one accepted result and the killed worker's job was taken over.
 */

import { Demo, type Finished } from "./demo/demo.ts";
import { story, table } from "./demo/report.ts";

const SUBJECTS: readonly [string, string][] = [
  ["1_majority", "Guess the most frequent species"],
  ["2_centroid", "Take the nearest mean"],
  ["3_scaled_centroid", "Scale each measurement by its spread"],
  ["4_neighbours", "Ask the seven nearest penguins"],
  ["5_naive_bayes", "Gaussian naive Bayes"],
  ["6_softmax", "Softmax regression"],
  ["7_softmax_long", "Softmax regression, twice the steps, weight decay"],
];

/** What is wrong with `results`, one line each; nothing when the demo proved its point. */
function faults(results: readonly Finished[], killed: Finished | undefined): string[] {
  const found: string[] = [];
  for (const { evaluation, leases } of results) {
    const accepted = leases.filter((lease) => lease.state === "reported").length;
    const name = `${evaluation.revision.slice(0, 10)} (${evaluation.subject})`;
    if (evaluation.state !== "measured") {
      found.push(`${name} is ${evaluation.state}: ${evaluation.error}`);
    }
    if (accepted !== 1) found.push(`${name} has ${accepted} accepted results instead of 1`);
  }
  if (killed === undefined) found.push("the killed worker held no job: nothing was taken over");
  else if (killed.leases.length < 2) found.push("the killed worker's job was not queued again");
  return found;
}

async function main(args: readonly string[]): Promise<number> {
  const at = args.indexOf("--binary");
  await using demo = await Demo.start({
    binary: at >= 0 ? args[at + 1] ?? null : null,
    keep: args.includes("--keep"),
  });
  await demo.makeCampaign(SUBJECTS);
  await demo.startWorker("ant");
  await demo.startWorker("bee");
  await demo.queueAll();
  const killedJob = await demo.killBusyWorker("bee");
  const results = await demo.results();
  const killed = results.find((result) => result.evaluation.job === killedJob);

  for (const line of table(results)) console.log(line);
  if (killed !== undefined) { for (const line of story(killed, "bee")) console.log(line); }
  const wrong = faults(results, killed);
  for (const line of wrong) console.error(`FAILED: ${line}`);
  if (wrong.length === 0) {
    console.log(`\n${results.length} commits, each with exactly one accepted result`);
  }
  return wrong.length === 0 ? 0 : 1;
}

Deno.exit(await main(Deno.args));
