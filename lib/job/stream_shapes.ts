/**
 * @module What a running job writes, on its way to the server in parts: an agent's session and the logs of any job.
 * `POST /v1/executor/saved`, a call of ours: piloop's server does not know it, and its workers never make it.
 */

import * as z from "zod";
import { agentUsage } from "./agent_shapes.ts";
import { cidText, relativePath } from "./shapes.ts";

/** The stream that is an agent's session. Other names are those of log files, as the report's `files` will have them. */
export const SESSION_STREAM = "session";

/** The most bytes of one part. */
export const MAX_PART_BYTES = 4 * 1024 * 1024;

/**
 * How much of a log the server keeps while its job runs, bytes: its start, and its end. What lies between is dropped
 * while it runs on. A session is kept whole, up to `session`.
 */
export const STREAM_LIMITS = {
  head: 1024 * 1024,
  tail: 4 * 1024 * 1024,
  session: 256 * 1024 * 1024,
} as const;

/** The most streams of one job. */
export const MAX_STREAMS = 2_000;

/**
 * New bytes of a stream, in the CAS already. A part that starts where the stream ends is added; one that starts earlier
 * replaces what came after its start, since a file may be written anew; one that starts later leaves a gap.
 */
export const savedPart = z.object({
  lease: z.int(),
  stream: relativePath("stream"),
  offset: z.int().min(0),
  bytes: z.int().min(1).max(MAX_PART_BYTES),
  blob: cidText,
  /** The agent's tokens so far, with a part of its session. */
  usage: agentUsage.nullable().default(null),
  /** Where the session's file is, as in {@linkcode agentSessionFile}. */
  session: z.object({
    id: z.string().max(1024).nullable().default(null),
    name: relativePath("session.name"),
    cwd: z.string().max(4096).nullable().default(null),
  }).nullable().default(null),
});
export type SavedPart = z.output<typeof savedPart>;
