/** @module The JSON of jobs. */

import * as z from "zod";
import { agent, agentPrompt } from "./agent_schemas.ts";
import { name } from "./route.ts";
import { evaluation, next, time } from "./schemas.ts";

/** The states of a job. */
export const jobState = z.enum(["open", "reported", "dead", "cancelled"]);

const summary = {
  job: z.int(),
  kind: z.string().describe("Such as `evaluation` or `agent`."),
  key: z.string().describe("Names it within its kind: an evaluation's or an agent's number."),
  campaign: z.int().nullable(),
  state: jobState,
  reason: z.string().nullable()
    .describe("Why it is dead or cancelled, or is to be cancelled."),
  priority: z.int(),
  attempts: z.int(),
  max_attempts: z.int(),
  lease: z.int().describe("Its newest lease: the fencing token."),
  lease_state: z.string(),
  worker: z.string().nullable(),
  created_at: time,
  started_at: time.nullable(),
  ended_at: time.nullable(),
  waits: z.string().nullable().describe("Why it waits; null unless it does."),
};

const job = name("Job", z.object(summary));

const lease = name(
  "Lease",
  z.object({
    lease: z.int(),
    state: z.string(),
    attempt: z.int(),
    worker: z.string().nullable(),
    queued_at: time,
    acquired_at: time.nullable(),
    started_at: time.nullable(),
    renewed_at: time.nullable().describe("When a heartbeat last renewed it."),
    expires_at: time.nullable().describe("When it is lost, unless another heartbeat renews it."),
    revoked_at: time.nullable(),
    ended_at: time.nullable(),
    reason: z.string().nullable(),
  }),
);

const event = name(
  "Event",
  z.object({
    id: z.int().nullable().describe(
      "Null for a lease's own course: queued, acquired, running, reported.",
    ),
    at: time,
    event: z.string(),
    job: z.int().nullable(),
    lease: z.int().nullable(),
    worker: z.string().nullable(),
    fields: z.record(z.string(), z.unknown()),
  }),
);

const evidence = name(
  "Evidence",
  z.object({
    at: time,
    lease: z.int().nullable(),
    worker: z.string().nullable(),
    reason: z.string(),
    report: z.unknown().optional().describe("The report itself."),
    report_cid: z.string().optional().describe("Or its address in the CAS."),
  }).describe("A report that came too late to count."),
);

/** A job with everything that is known of it. */
export const jobDetails = name(
  "JobDetails",
  z.object({
    ...summary,
    job_cid: z.string().describe("The address of the job's JSON."),
    repo: z.int().nullable(),
    timeout_seconds: z.number().nullable()
      .describe("How long it may run once it has started; null: as long as it takes."),
    requires: z.object({
      pool: z.string().nullable(),
      runner: z.string().nullable(),
      labels: z.array(z.string()).readonly(),
    }),
    leases: z.array(lease).readonly(),
    events: z.array(event).readonly(),
    evidence: z.array(evidence).readonly(),
    evaluation: evaluation.nullable().describe("What it measures, for a job of that kind."),
    agent: agent.nullable().describe("Its agent, for a job of that kind."),
    prompts: z.array(agentPrompt).describe("What was said to the agent after its task."),
  }),
);

/** A page of jobs. */
export const jobList = name("JobList", z.object({ jobs: z.array(job), next }));

/** A job's log files. */
export const logList = name(
  "LogList",
  z.object({ files: z.record(z.string(), z.string()).describe("Path to address in the CAS.") }),
);

/** Why somebody cancels a job. */
export const cancellation = name(
  "Cancellation",
  z.object({ reason: z.string().max(1000).optional() }),
);

/** What a cancel came to. */
export const cancelled = name(
  "Cancelled",
  z.object({
    job: z.int(),
    outcome: z.enum(["cancelled", "revoked", "ended"])
      .describe("It ended at once; its worker was told to stop it; it had ended before."),
  }),
);

/** What a retry came to. */
export const retried = name("Retried", z.object({ job: z.int(), lease: z.int() }));
