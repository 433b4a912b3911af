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
