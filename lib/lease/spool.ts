/**
 * @module What a worker has finished and the server has not accepted yet. An entry is durable before it is first sent,
 * and goes once the server accepted or refused it, whichever process of the worker that takes.
 */

import * as z from "zod";
import { SubletError, unsafeReason } from "../home/mod.ts";
import type { Report } from "../job/mod.ts";

/** What a lease came to. */
export type SpooledOutcome =
  | { readonly report: Report }
  | { readonly lost: string; readonly hostFault?: boolean };

/** One finished lease. */
export interface SpoolEntry {
  readonly lease: number;
  /** The id that every send of it carries, so that an answer that was lost costs nothing. */
  readonly requestId: string;
  readonly outcome: SpooledOutcome;
  /** The job's JSON, for the runner's cleanup. Null when it never was read. */
  readonly job: unknown;
}

/** Where a worker keeps its entries. Names of workers are judged by {@linkcode workerPart}. */
export interface Spool {
  /**
   * The entries of `worker`, ascending. One that is none is set aside and logged. Rejects when they cannot be read now,
   * for a fault of the machine.
   */
  load(worker: string): Promise<SpoolEntry[]>;
  /** Keep `entry`, in place of an older one of its lease; durable when it resolves. */
  keep(worker: string, entry: SpoolEntry): Promise<void>;
  /** Forget the entry of `lease`. Repeatable. */
  drop(worker: string, lease: number): Promise<void>;
  /** Put the entry of `lease` aside for a person to look at; it is sent no more. */
  setAside(worker: string, lease: number): Promise<void>;
}

/** The JSON of an entry, as piloop 0.3.1 spools one, and `lost` beside it. */
const spooled = z.object({
  request_id: z.string().min(1),
  report: z.looseObject({ kind: z.string() }).optional(),
  lost: z.string().optional(),
  host_fault: z.boolean().optional(),
  job: z.unknown(),
}).refine((entry) => (entry.report === undefined) !== (entry.lost === undefined), {
  error: "needs either report or lost",
});

/** An entry as bytes. */
export function encodeSpooled(entry: SpoolEntry): Uint8Array {
  const { requestId, outcome, job } = entry;
  const fault = "lost" in outcome && outcome.hostFault === true ? { host_fault: true } : {};
  const what = "lost" in outcome ? { lost: outcome.lost, ...fault } : outcome;
  return new TextEncoder().encode(
    JSON.stringify({ request_id: requestId, ...what, job: job ?? null }),
  );
}

/** The entry of `lease` from its bytes. Throws `invalid_body`. */
export function decodeSpooled(lease: number, bytes: Uint8Array): SpoolEntry {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new SubletError("invalid_body", `the spooled report of lease ${lease} is no JSON`, {
      cause,
    });
  }
  const parsed = spooled.safeParse(json);
  if (!parsed.success) {
    const first = parsed.error.issues[0];
    throw new SubletError(
      "invalid_body",
      `the spooled report of lease ${lease} is none: ${first?.path.join(".")} ${first?.message}`,
    );
  }
  const { request_id: requestId, report, lost, host_fault, job } = parsed.data;
  const fault = host_fault === true ? { hostFault: true } : {};
  const outcome = report === undefined ? { lost: lost ?? "", ...fault } : { report };
  return { lease, requestId, outcome, job: job ?? null };
}

/**
 * The name of a worker, judged as one part of a path: servers choose it, and it names a directory here. Throws
 * `unsafe_path`.
 */
export function workerPart(name: string): string {
  const reason = name.includes("/") ? "it holds a slash" : unsafeReason(name);
  if (reason !== null || /\p{Cc}/u.test(name)) {
    throw new SubletError(
      "unsafe_path",
      `the server calls this worker ${JSON.stringify(name)}, which cannot name a directory here: ${
        reason ?? "it holds a control character"
      }. Give it a token with another name`,
    );
  }
  return name;
}
