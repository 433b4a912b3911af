/**
 * @module What a job is, and what comes back of it, as JSON. Shapes follow piloop 0.3.1 (worker protocol 7): unknown
 * fields are ignored, so both sides may add some.
 */

import * as z from "zod";
import { safeRelative } from "../home/mod.ts";
import { type Cid, parseCid } from "../cas/mod.ts";

/** The address of a blob, as text. */
export const cidText: z.ZodType<Cid, string> = z.string().transform((text, context) => {
  try {
    return parseCid(text);
  } catch (error) {
    context.addIssue({
      code: "custom",
      message: error instanceof Error ? error.message : String(error),
    });
    return z.NEVER;
  }
});

/** A relative path that is safe beneath a root. Any other fails with the reason. */
export function relativePath(what: string): z.ZodType<string, string> {
  return z.string().transform((path, context) => {
    try {
      return safeRelative(path, what);
    } catch (error) {
      context.addIssue({
        code: "custom",
        message: error instanceof Error ? error.message : String(error),
      });
      return z.NEVER;
    }
  });
}

/** What a home holds beside the places of jobs. */
const RESERVED =
  /^(inputs|clones|spool|tmp|store|bin|begun|cas|secrets|worker-.*|config\.toml.*|sublet\..*|serve\..*)$/;

/** Whether a job at `path` would be among what its worker's home keeps for itself; file systems may fold case. */
function isReserved(path: string): boolean {
  return RESERVED.test((path.split("/")[0] ?? "").toLowerCase().replace(/[\s.]+$/, ""));
}

/** A job's log directory beneath the worker's home. */
export const placeOfJob = relativePath("place").refine((path) => !isReserved(path), {
  error: "it is a name that a worker's home uses itself",
});

/** Files by safe relative path. */
export const filesByPath = z.record(relativePath("files"), cidText);

/** A commit's object id: SHA-1 or SHA-256, lower-case hex. */
export const revision = z.string().regex(
  /^([0-9a-f]{40}|[0-9a-f]{64})$/,
  "is not a full commit id",
);

/** An artifact: the files of `revision` in `repo`, with `links` in it. */
export const source = z.object({
  vcs: z.looseObject({ provider: z.string() }).default({ provider: "git" }),
  /** Campaign id: the repo of record. */
  repo: z.int(),
  revision,
  /**
   * Path in the checkout (a directory or a file) to the manifest of its tree. The manifest's paths are relative to the
   * checkout's root, so each one is that path or starts with it: every link's manifest goes to the root.
   */
  links: z.record(relativePath("links"), cidText).default({}),
  workspace: z.object({ place: relativePath("workspace"), manifest: cidText }).nullable().default(
    null,
  ),
  history: z.array(revision).default([]),
});
export type Source = z.output<typeof source>;

/** Run a command on a checkout, `repeats` times, beside the bar's when there is one. */
export const evaluationJob = z.object({
  kind: z.literal("evaluation"),
  evaluation: z.int(),
  candidate: z.int(),
  run: z.int().nullable().default(null),
  runner: z.string().default("process"),
  artifact: source,
  /** Log directory beneath the worker's home; the worker adds `/lease-<id>`. */
  place: placeOfJob,
  command: z.array(z.string()).min(1),
  /** Seconds for each run of the command. */
  timeout: z.number().positive(),
  /** Every metric that must be printed. */
  required: z.array(z.string()),
  bar: z.object({ candidate: z.int(), artifact: source }).nullable().default(null),
  repeats: z.int().min(1).default(1),
});
export type EvaluationJob = z.output<typeof evaluationJob>;

/** One run of an evaluation's command. Seconds; `units` maps metric to unit id to number. */
export const sample = z.object({
  metrics: z.record(z.string(), z.number()),
  seconds: z.number(),
  error: z.string().nullable().default(null),
  units: z.record(z.string(), z.record(z.string(), z.number())).default({}),
});
export type Sample = z.output<typeof sample>;

/** What an evaluation came to. */
export const evaluationReport = z.object({
  kind: z.literal("evaluation"),
  samples: z.array(sample).min(1),
  bar_samples: z.array(sample).default([]),
  files: filesByPath.default({}),
});
export type EvaluationReport = z.output<typeof evaluationReport>;
