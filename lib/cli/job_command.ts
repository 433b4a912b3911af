/** @module `sublet job list | show | logs | cancel | retry | recover`. */

import type { Command } from "@commander-js/extra-typings";
import { ApiClient } from "./api_client.ts";
import { age, number, Output } from "./output.ts";
import { integer } from "./parse.ts";
import { agentRows, waitForAgent } from "./agent_result.ts";
import { addLogs } from "./job_logs.ts";
import { type AgentView, type EvaluationView, metricsText, type PromptView } from "./views.ts";

/** A job in a list, as the API answers it. */
interface JobView {
  readonly job: number;
  readonly kind: string;
  readonly key: string;
  readonly state: string;
  readonly worker: string | null;
  readonly lease: number | null;
  readonly attempts: number;
  readonly max_attempts: number;
  readonly created_at: string;
  readonly reason: string | null;
  readonly waits?: string | null;
}

interface LeaseView {
  readonly lease: number;
  readonly state: string;
  readonly worker: string | null;
  readonly acquired_at: string | null;
  readonly ended_at: string | null;
  readonly reason?: string | null;
}

interface JobDetails extends JobView {
  readonly leases: readonly LeaseView[];
  readonly events: readonly {
    at: string;
    event: string;
    lease: number | null;
    worker: string | null;
    fields: unknown;
  }[];
  readonly evaluation?: EvaluationView | null;
  readonly agent?: AgentView | null;
  readonly prompts?: readonly PromptView[];
}

/** Characters of a task or a prompt that are shown. */
const MAX_SHOWN = 500;

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
    .option("--state <state>", "only jobs in this state: open, reported, dead or cancelled")
    .option("--campaign <name>", "only jobs of this campaign")
    .option("--kind <kind>", "only jobs of this kind, evaluation or agent")
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
      if (jobs.length === 0) output.note("no job yet: `sublet eval` or `sublet agent` queues one");
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

function addShow(job: Command): void {
  job.command("show")
    .description("Show one job: its leases, what happened to it, and why it waits.")
    .argument("<job>", "the job's number", integer(1, Number.MAX_SAFE_INTEGER))
    .option("--json", "print one JSON document")
    .action(async (id, options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      const found = await api.call<JobDetails>("GET", `/v1/jobs/${id}`);
      if (output.json) return output.document(found);
      output.table([], [
        ["job", String(found.job)],
        ["kind", `${found.kind} ${found.key}`],
        ["state", found.state],
        ["attempts", `${found.attempts} of ${found.max_attempts}`],
        ...(found.reason ? [["reason", found.reason]] : []),
        ...(found.waits ? [["waits", found.waits]] : []),
        ...evaluationRows(found.evaluation ?? null),
        ...rowsOfAgent(found.agent ?? null, found.prompts ?? []),
      ]);
      for (const lease of found.leases) {
        output.table([], [[
          "lease",
          String(lease.lease),
          lease.state,
          lease.worker ?? "",
          lease.reason ?? "",
        ]]);
      }
      for (const event of found.events) {
        output.table([], [[
          event.at,
          event.event,
          `lease ${event.lease ?? "-"}`,
          event.worker ?? "",
          JSON.stringify(event.fields),
        ]]);
      }
    });
}

function evaluationRows(evaluation: EvaluationView | null): string[][] {
  if (evaluation === null) return [];
  const metrics = metricsText(evaluation.metrics, number);
  return [
    ["commit", `${evaluation.revision.slice(0, 10)} ${evaluation.subject}`],
    ["result", evaluation.state],
    ...(metrics === "" ? [] : [["metrics", metrics]]),
    ...(evaluation.error === null ? [] : [["error", evaluation.error]]),
    ...(evaluation.comparison ? [["against", evaluation.comparison.reason]] : []),
  ];
}

/** Texts of people can be long; --json has all of them. */
function cut(text: string): string {
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`;
}

function rowsOfAgent(agent: AgentView | null, prompts: readonly PromptView[]): string[][] {
  if (agent === null) return [];
  const model = agent.model === null ? "" : ` with ${agent.model}`;
  return [
    ["asked", cut(agent.prompt)],
    ["base", `${agent.base.slice(0, 10)} ${agent.subject}`],
    ["harness", `${agent.harness}${model}, in the role ${agent.role}`],
    ...(agent.resumes === null ? [] : [["goes on", `with the session of agent ${agent.resumes}`]]),
    ...(agent.session_id === null ? [] : [["session", agent.session_id]]),
    ...(agent.active_at === null ? [] : [["active", agent.active_at]]),
    ...agentRows(agent),
    ...prompts.map(({ prompt, state, text, actor, error }) => [
      `prompt ${prompt}`,
      `${state}${error === null ? "" : ` (${error})`}, by ${actor}: ${cut(text)}`,
    ]),
  ];
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
    .description("Queue a dead, failed or cancelled job again.")
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
