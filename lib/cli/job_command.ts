/** @module `sublet job list | show | logs | cancel | retry | recover`. */

import { type Command, Option } from "@commander-js/extra-typings";
import { ApiClient } from "./api_client.ts";
import { age, Output } from "./output.ts";
import { integer } from "./parse.ts";
import { agentRows, waitForAgent } from "./agent_result.ts";
import { addLogs } from "./job_logs.ts";
import { addShow, type JobView } from "./job_show.ts";
import type { AgentView } from "./views.ts";

/** What a cancel came to. */
const CANCELLED = {
  cancelled: "cancelled",
  revoked: "its worker is told to stop it, and still reports",
  ended: "it had ended before, so nothing changed",
} as const;

/** Add the commands. */
export function addJob(root: Command): void {
  const job = root.command("job").description("Jobs: what is queued, runs or ended, and why.");
  addList(job);
  addShow(job);
  addLogs(job);
  addEnding(job);
}

function addList(job: Command): void {
  job.command("list")
    .description("List jobs, newest first.")
    .addOption(
      new Option("--state <state>", "only jobs in this state")
        .choices(["open", "reported", "dead", "cancelled"]),
    )
    .option("--campaign <name>", "only jobs of this campaign")
    .addOption(
      new Option("--kind <kind>", "only jobs of this kind").choices(["evaluation", "agent"]),
    )
    .option("--before <job>", "only older ones than this job", integer(1, Number.MAX_SAFE_INTEGER))
    .option("--limit <n>", "at most so many", integer(1, 1000), 50)
    .option("--json", "print one JSON line for each job")
    .action(async (options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      const query = new URLSearchParams({ limit: String(options.limit) });
      for (const key of ["state", "campaign", "kind"] as const) {
        const value = options[key];
        if (value !== undefined) query.set(key, value);
      }
      if (options.before !== undefined) query.set("after", String(options.before));
      const { jobs } = await api.call<{ jobs: JobView[] }>("GET", `/v1/jobs?${query}`);
      if (output.json) {
        for (const each of jobs) output.line(JSON.stringify(each));
        return;
      }
      if (jobs.length === 0) {
        output.note(
          [...query.keys()].length > 1
            ? "no job that fits"
            : "no job yet: `sublet eval` or `sublet agent` queues one",
        );
      }
      output.table(
        ["job", "kind", "state", "worker", "lease", "attempts", "age", "why"],
        jobs.map((each) => [
          String(each.job),
          `${each.kind} ${each.key}`,
          each.state,
          each.worker ?? "",
          String(each.lease ?? ""),
          `${each.attempts}/${each.max_attempts}`,
          age(Date.now() - Date.parse(each.created_at)),
          each.reason ?? each.waits ?? "",
        ]),
      );
    });
}

function addEnding(job: Command): void {
  job.command("cancel")
    .description("Cancel a job: a queued one at once, a running one is stopped and still reports.")
    .argument("<job>", "the job's number", integer(1, Number.MAX_SAFE_INTEGER))
    .option("--reason <text>", "why")
    .action(async (id, options) => {
      const output = new Output();
      using api = await ApiClient.open();
      const { outcome } = await api.call<{ outcome: keyof typeof CANCELLED }>(
        "POST",
        `/v1/jobs/${id}/cancel`,
        { reason: options.reason ?? "cancelled by the command line" },
      );
      output.note(`job ${id}: ${CANCELLED[outcome]}`);
    });
  job.command("retry")
    .description("Queue a dead or cancelled job again, with all its attempts.")
    .argument("<job>", "the job's number", integer(1, Number.MAX_SAFE_INTEGER))
    .action(async (id) => {
      const output = new Output();
      using api = await ApiClient.open();
      await api.call("POST", `/v1/jobs/${id}/retry`, {});
      output.note(`job ${id}: queued again`);
    });
  job.command("recover")
    .description(
      "Take what the worker of a lost agent handed in too late: its commits, its files, its session.",
    )
    .argument("<job>", "the job's number", integer(1, Number.MAX_SAFE_INTEGER))
    .option("--json", "print one JSON line for the agent")
    .action(async (id, options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      const { agent } = await api.call<AgentView>("POST", `/v1/jobs/${id}/recover`, {});
      const last = await waitForAgent(api, agent);
      if (output.json) return output.line(JSON.stringify(last));
      output.table([], agentRows(last));
    });
}
