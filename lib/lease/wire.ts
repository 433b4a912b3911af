/**
 * @module The bodies of `POST /v1/executor/<call>`: piloop's worker protocol 7, as JSON. Unknown fields are ignored;
 * 204 without a body is success with no content, and a long-poll that ran out.
 */

import * as z from "zod";
import { cidText, revision, savedPart } from "../job/mod.ts";

/** A worker of ours with less free disk than this, bytes, asks for no job. */
export const DISK_RESERVE = 64 * 2 ** 20;
/** The version of these calls. */
export const PROTOCOL = 7;
/** The longest `wait` of a long-poll, seconds. */
export const MAX_POLL_SECONDS = 25;
/** How many messages one answer holds at most. */
export const MAX_MESSAGES = 100;
/** How many commits `have` of `send` holds at most. */
export const MAX_HAVE = 64;

/** Characters of a name that a worker gives: its version, a label, a runner. */
const MAX_NAME = 200;
/** Characters of a reason or an error that a worker gives. */
const MAX_REASON = 64 * 1024;
const MAX_NAMES = 1_000;
const name = z.string().max(MAX_NAME);
/** Cut rather than refused: a worker of protocol 7 takes a refusal for its dismissal. */
const reason = z.string().transform((text) => text.slice(0, MAX_REASON).toWellFormed());

/** What a worker's host has now. Bytes; `load1` is the 1-minute load average. */
export const hostSample = z.object({
  at: z.string().max(100),
  cpus: z.int().positive(),
  load1: z.number(),
  memory_available: z.number(),
  disk_free: z.number(),
});
export type HostSample = z.output<typeof hostSample>;

/** Where a job runs. */
export const jobHandle = z.union([
  z.object({ pgid: z.int(), start_time: z.number().nullable() }),
  z.object({ runtime: z.string(), data: z.record(z.string(), z.unknown()) }),
]);

/** A lease that a worker holds. `lease` is the fencing token; `started_at` is ISO 8601 UTC. */
export const grant = z.object({
  lease: z.int(),
  job_cid: cidText,
  handle: jobHandle.nullable().default(null),
  started_at: z.string().nullable().default(null),
});
export type Grant = z.output<typeof grant>;

/** Why an acquire granted nothing. */
export const NO_LEASE = ["draining", "memory", "load", "slots", "nothing"] as const;
export const noLease = z.enum(NO_LEASE);
export type NoLease = z.output<typeof noLease>;

const prompt = z.object({ id: z.int(), text: z.string() });
/** What a worker reads after its cursor. */
export const message = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("work"), id: z.int() }),
  z.object({ kind: z.literal("prompt"), id: z.int(), lease: z.int(), prompt }),
  z.object({ kind: z.literal("revoke"), id: z.int(), lease: z.int() }),
  z.object({ kind: z.literal("drain"), id: z.int() }),
]);
export type Message = z.output<typeof message>;

/** Seconds: heartbeat period, silence until unreachable, silence until leases expire. */
export const timing = z.object({
  renew: z.number().positive(),
  grace: z.number().positive(),
  toleration: z.number().positive(),
});
export type Timing = z.output<typeof timing>;

/** A heartbeat's answer for one lease. */
export const answer = z.enum(["renewed", "revoked", "stale"]);
export type Answer = z.output<typeof answer>;

const leaseId = z.int();
const wait = z.number().min(0).max(MAX_POLL_SECONDS).default(0);

/** Request bodies, by call. */
export const requests = {
  register: z.object({
    protocol: z.int(),
    version: name,
    pool: name,
    runners: z.array(name).max(MAX_NAMES),
    sample: hostSample,
    cas_probe: cidText,
    /** Ours: free-form labels that jobs may require. */
    labels: z.array(name).max(MAX_NAMES).default([]),
  }),
  acquire: z.object({ request_id: z.string().min(1).max(200), sample: hostSample }),
  started: z.object({
    lease: leaseId,
    handle: jobHandle,
    session_id: z.string().nullable(),
  }),
  heartbeat: z.object({
    leases: z.record(z.string().regex(/^\d{1,15}$/), z.string().nullable()),
    sample: hostSample,
  }),
  report: z.object({
    lease: leaseId,
    request_id: z.string().min(1).max(200),
    report: z.looseObject({ kind: z.string() }),
  }),
  lost: z.object({ lease: leaseId, reason }),
  messages: z.object({ after: z.int().min(0), wait }),
  queued: z.object({ message: z.int(), error: reason.nullable() }),
  secrets: z.object({ lease: leaseId }),
  send: z.object({
    repo: z.int(),
    revisions: z.array(revision).max(10_000),
    have: z.array(revision).max(MAX_HAVE),
    wait,
  }),
  cli: z.object({
    lease: leaseId,
    argv: z.array(z.string()).max(MAX_NAMES),
    stdin: z.string().nullable(),
  }),
  /** Ours: what a job writes while it runs. */
  saved: savedPart,
} as const;

/** Bodies of 200 answers, by call; a call that is absent here answers 204. */
export const answers = {
  register: z.object({
    worker: z.string(),
    timing,
    held: z.array(grant),
    cursor: z.int(),
  }),
  acquire: z.union([grant, noLease]),
  heartbeat: z.record(z.string(), answer),
  report: z.record(z.string(), z.unknown()),
  messages: z.array(message),
  secrets: z.record(z.string(), z.string()),
  send: z.array(cidText),
  cli: z.object({ stdout: z.string(), stderr: z.string(), exit_code: z.int() }),
} as const;

/** The body of a refusal: `error` is one of the codes of the error table, or absent for 401, 403, 404 and 422. */
export const refusalBody = z.object({ error: z.string().optional(), detail: z.unknown() });

/** Headers by which a worker process of ours says which one it is, and which dead one it succeeds. Ours. */
export const INCARNATION_HEADER = "sublet-incarnation";
export const SUCCEEDS_HEADER = "sublet-succeeds";
/** Header `1` of `register`: this worker takes exactly one lease, which the server enforces. Ours. */
export const ONCE_HEADER = "sublet-once";
/** Header `1` of `lost`: the worker's machine is at fault, so that it is none of the job's attempts. Ours. */
export const HOST_FAULT_HEADER = "sublet-host-fault";
