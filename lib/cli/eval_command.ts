/** @module `sublet eval`: measure commits, and print each result when it is there. */

import type { Command } from "@commander-js/extra-typings";
import { EXIT } from "../home/mod.ts";
import { ApiClient } from "./api_client.ts";
import { Finished } from "./finished.ts";
import { number, Output } from "./output.ts";
import { integer } from "./parse.ts";
import { Patience } from "./patience.ts";
import { type EvaluationView, isEnded, metricsText } from "./views.ts";

/** How long a look at an evaluation lasts: the first one is short, so that it is soon said why nothing happens. */
const FIRST_LOOK_SECONDS = 3;
const LOOK_SECONDS = 25;

/** Add the command. */
export function addEval(root: Command): void {
  root.command("eval")
    .description(
      "Measure commits of a campaign: one evaluation each, on any worker with a free slot.",
    )
    .argument("[revision...]", "commits, branches or tags (default: HEAD)")
    .option(
      "--campaign <name>",
      "the campaign (default: the one whose checkout this directory is in)",
    )
    .option("--repeats <n>", "runs of the command for each evaluation", integer(1, 1000))
    .option("--against <revision>", "measure this revision beside each, in pairs, and compare")
    .option("--pool <pool>", "only on workers of this pool")
    .option("--priority <n>", "higher goes first", integer(-1000, 1000))
    .option("--dedup <key>", "names this request: asked again, it measures nothing twice")
    .option("--no-wait", "print the queued evaluations and leave")
    .option("--json", "print one JSON line for each evaluation")
    .addHelpText(
      "after",
      "\nExit code 0 when every one was measured, 1 otherwise.\n\nExample:\n  sublet eval main --repeats 3",
    )
    .action(async (revisions, options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      const { evaluations } = await api.call<{ evaluations: EvaluationView[] }>(
        "POST",
        "/v1/evaluations",
        {
          revisions: revisions.length === 0 ? ["HEAD"] : revisions,
          ...(options.campaign === undefined
            ? { path: Deno.cwd() }
            : { campaign: options.campaign }),
          ...(options.repeats === undefined ? {} : { repeats: options.repeats }),
          ...(options.against === undefined ? {} : { against: options.against }),
          ...(options.pool === undefined ? {} : { pool: options.pool }),
          ...(options.priority === undefined ? {} : { priority: options.priority }),
          ...(options.dedup === undefined ? {} : { dedup: options.dedup }),
        },
      );
      if (!options.wait) {
        for (const evaluation of evaluations) printEvaluation(output, evaluation);
        return;
      }
      await followAll(api, output, evaluations);
    });
}

/** Wait for every evaluation, print each as it ends, and finish with 1 unless all were measured. */
export async function followAll(
  api: ApiClient,
  output: Output,
  evaluations: readonly EvaluationView[],
): Promise<EvaluationView[]> {
  if (!output.json) {
    output.note(
      `${evaluations.length} evaluation${
        evaluations.length === 1 ? "" : "s"
      } queued; Ctrl-C leaves them running`,
    );
  }
  let ended = 0;
  const said = new Set<string>();
  const waits = (why: string) => {
    if (output.json || said.has(why)) return;
    said.add(why);
    output.note(`waits: ${why}`);
  };
  const all = await Promise.all(evaluations.map(async (evaluation) => {
    const last = await follow(api, evaluation, waits);
    ended++;
    printEvaluation(output, last);
    if (!output.json && output.terminal) output.note(`${ended} of ${evaluations.length}`);
    return last;
  }));
  if (all.some((evaluation) => evaluation.state !== "measured")) throw new Finished(EXIT.failed);
  return all;
}

/**
 * Poll `evaluation` until it ended, and tell `waits` why it has not begun. A server that restarts meanwhile is waited
 * for.
 */
async function follow(
  api: ApiClient,
  { evaluation }: EvaluationView,
  waits: (why: string) => void,
): Promise<EvaluationView> {
  const patience = new Patience();
  for (let seconds = FIRST_LOOK_SECONDS;; seconds = LOOK_SECONDS) {
    const now = await patience.ask(() =>
      api.call<EvaluationView>("GET", `/v1/evaluations/${evaluation}?wait=${seconds}`)
    );
    if (now !== null && isEnded(now)) return now;
    if (now === null || now.state !== "waiting" || now.job === null) continue;
    const job = await patience.ask(() =>
      api.call<{ waits: string | null }>("GET", `/v1/jobs/${now.job}`)
    );
    if (job !== null && job.waits !== null) waits(job.waits);
  }
}

/** Print one, as it is now. */
export function printEvaluation(output: Output, evaluation: EvaluationView): void {
  if (output.json) {
    output.line(JSON.stringify(evaluation));
    return;
  }
  const result = evaluation.state === "measured"
    ? metricsText(evaluation.metrics, number)
    : evaluation.error ?? "";
  const cells = [
    evaluation.revision.slice(0, 10),
    evaluation.state,
    result,
    evaluation.worker ?? "",
    `job ${evaluation.job ?? "-"}`,
    evaluation.subject,
  ];
  if (evaluation.comparison) {
    cells.push(`${evaluation.comparison.verdict}: ${evaluation.comparison.reason}`);
  }
  output.table([], [cells]);
}
