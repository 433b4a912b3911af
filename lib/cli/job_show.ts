/** @module `sublet job show`. */

import type { Command } from "@commander-js/extra-typings";
import { agentRows } from "./agent_result.ts";
import { ApiClient } from "./api_client.ts";
import { number, Output } from "./output.ts";
import { integer } from "./parse.ts";
import { type AgentView, type EvaluationView, metricsText, type PromptView } from "./views.ts";

/** A job in a list, as the API answers it. */
export interface JobView {
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
    fields: Readonly<Record<string, unknown>>;
  }[];
  readonly evaluation?: EvaluationView | null;
  readonly agent?: AgentView | null;
  readonly prompts?: readonly PromptView[];
}

/** Characters of a task or a prompt that are shown. */
const MAX_SHOWN = 500;

/** Add the command. */
export function addShow(job: Command): void {
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
          fieldsText(event.fields),
        ]]);
      }
    });
}

/** What an event says beside its name: `attempt 1, reason: its worker w was silent for 300 seconds`. */
export function fieldsText(fields: Readonly<Record<string, unknown>>): string {
  return Object.entries(fields).map(([name, value]) =>
    typeof value === "string" ? `${name}: ${cut(value)}` : `${name} ${JSON.stringify(value)}`
  ).join(", ");
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
