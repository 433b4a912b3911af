/** @module The JSON of the HTTP API, as far as the CLI reads it. The API's own document is `/v1/openapi.json`. */

/** An evaluation. `seconds` is the command's time; times are ISO 8601 UTC. */
export interface EvaluationView {
  readonly job: number | null;
  readonly evaluation: number;
  readonly campaign: string;
  readonly revision: string;
  readonly subject: string;
  readonly state: "waiting" | "running" | "measured" | "failed" | "cancelled";
  readonly metrics: Readonly<Record<string, number>>;
  readonly worker: string | null;
  readonly lease: number | null;
  readonly attempts: number;
  readonly seconds: number | null;
  readonly error: string | null;
  readonly files: Readonly<Record<string, string>>;
  readonly comparison?: { readonly verdict: string; readonly reason: string } | null;
}

/** Tokens. */
interface UsageView {
  readonly total: number;
  readonly turns: number;
}

/** An agent. Times are ISO 8601 UTC. */
export interface AgentView {
  readonly job: number | null;
  readonly agent: number;
  readonly campaign: string;
  readonly role: string;
  readonly harness: string;
  readonly model: string | null;
  readonly prompt: string;
  readonly base: string;
  readonly subject: string;
  readonly state: "waiting" | "running" | "landing" | "finished" | "failed" | "cancelled" | "lost";
  readonly resumes: number | null;
  readonly worker: string | null;
  readonly session_id: string | null;
  readonly session_format: string | null;
  readonly usage: UsageView | null;
  readonly session_usage: UsageView | null;
  readonly seconds: number | null;
  readonly exit_code: number | null;
  readonly timed_out: boolean;
  readonly error: string | null;
  readonly landed: {
    readonly head: string | null;
    readonly ref: string | null;
    readonly commits: number;
    readonly branches: readonly { readonly name: string; readonly ref: string }[];
    readonly left_out: readonly { readonly path: string; readonly reason: string }[];
    readonly left_out_count: number;
    readonly notes: readonly string[];
    readonly workspace: {
      readonly written: number;
      readonly removed: number;
      readonly beside: Readonly<Record<string, string>>;
      readonly blocked: Readonly<Record<string, string>>;
      readonly kept: readonly string[];
    };
  } | null;
  readonly active_at: string | null;
}

/** Something that was said to an agent. */
export interface PromptView {
  readonly prompt: number;
  readonly text: string;
  readonly state: "waiting" | "sent" | "queued" | "read" | "unread" | "refused";
  readonly error: string | null;
  readonly actor: string;
}

/** Whether an agent's state is its last. */
export function agentEnded({ state }: AgentView): boolean {
  return state !== "waiting" && state !== "running" && state !== "landing";
}

/** Whether an evaluation's state is its last. */
export function isEnded(evaluation: EvaluationView): boolean {
  return evaluation.state !== "waiting" && evaluation.state !== "running";
}

/** `metrics` as `name=number`, in order of name. */
export function metricsText(
  metrics: Readonly<Record<string, number>>,
  format: (n: number) => string,
): string {
  return Object.entries(metrics).sort(([a], [b]) => a < b ? -1 : 1).map(([k, v]) =>
    `${k}=${format(v)}`
  ).join(" ");
}
