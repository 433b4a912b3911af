/** @module The JSON of agents. */

import * as z from "zod";
import { AGENT_STATES, PROMPT_STATES } from "../job/mod.ts";
import { name } from "./route.ts";
import { next, time } from "./schemas.ts";

/** How an agent can stand. */
export const agentState = z.enum(AGENT_STATES).describe(
  "`landing`: its report is taken, and its commits and files are being put in place.",
);

const usage = name(
  "AgentUsage",
  z.object({
    input: z.int().describe("Without what the cache served."),
    output: z.int(),
    cache_read: z.int(),
    cache_write: z.int(),
    total: z.int().describe("As the harness counts."),
    turns: z.int().describe("Responses of the model."),
    source: z.string().describe("The session's file, on the worker."),
  }).describe("Tokens, as a session's file counts them."),
);

const landed = name(
  "Landed",
  z.object({
    head: z.string().nullable().describe("The newest version that it left."),
    ref: z.string().nullable().describe("The ref in the campaign's repository that keeps it."),
    commits: z.int().describe("Versions beyond its base."),
    versions: z.array(z.object({ revision: z.string(), subject: z.string() })).readonly()
      .describe("The newest of them, newest first."),
    branches: z.array(z.object({ name: z.string(), revision: z.string(), ref: z.string() }))
      .readonly().describe("Other versions that it left."),
    blob: z.string().nullable().describe("The bundle in the CAS that brought them."),
    left_out: z.array(z.object({ path: z.string(), reason: z.string() })).readonly()
      .describe("Unsaved paths that could not be brought back."),
    left_out_count: z.int(),
    notes: z.array(z.string()).readonly(),
    workspace: z.object({
      written: z.int(),
      removed: z.int(),
      beside: z.record(z.string(), z.string())
        .describe("Where its file is, for paths that somebody else changed meanwhile."),
      blocked: z.record(z.string(), z.string())
        .describe("The file's address in the CAS, for paths where something is in the way."),
      kept: z.array(z.string()).readonly()
        .describe("Paths that it removed, and that stay since somebody else changed them."),
    }),
  }).describe("What came back of an agent, where it belongs."),
);

/** An agent. */
export const agent = name(
  "Agent",
  z.object({
    job: z.int().nullable(),
    agent: z.int(),
    campaign: z.string().describe("The campaign's name."),
    role: z.string(),
    harness: z.string(),
    model: z.string().nullable(),
    effort: z.string().nullable(),
    prompt: z.string(),
    base: z.string().describe("The revision that it starts from."),
    subject: z.string(),
    state: agentState,
    timeout: z.number().describe("Seconds that it may run."),
    resumes: z.int().nullable().describe("The agent whose session it goes on with."),
    worker: z.string().nullable(),
    lease: z.int().nullable(),
    attempts: z.int().describe("How many leases it had."),
    session_id: z.string().nullable(),
    session_format: z.string().nullable()
      .describe("Of its session: `claude`, `codex` or `pi`. Null: none that is known here."),
    usage: usage.nullable().describe("Its own tokens."),
    session_usage: usage.nullable().describe(
      "Those of its whole session, with what agents used before whose session it goes on with.",
    ),
    seconds: z.number().nullable().describe("That it ran."),
    exit_code: z.int().nullable(),
    timed_out: z.boolean().describe("Whether it was stopped because its time was over."),
    changed: z.boolean().nullable().describe("Whether it changed its checkout."),
    error: z.string().nullable(),
    files: z.record(z.string(), z.string()).describe("Log files: path to address in the CAS."),
    landed: landed.nullable(),
    active_at: time.nullable().describe("When something of it was last heard."),
    requested_at: time,
    started_at: time.nullable(),
    ended_at: time.nullable(),
  }),
);

/** A page of agents. */
export const agentList = name("AgentList", z.object({ agents: z.array(agent), next }));

/** Something that was said to an agent. */
export const agentPrompt = name(
  "AgentPrompt",
  z.object({
    prompt: z.int(),
    agent: z.int(),
    text: z.string(),
    state: z.enum(PROMPT_STATES).describe(
      "`waiting` for the agent to start, `sent` to its worker, `queued` for its next turn, and then `read`, `unread`" +
        " (it ended first) or `refused`.",
    ),
    error: z.string().nullable(),
    actor: z.string().describe("Who said it."),
    at: time,
    answered_at: time.nullable(),
  }),
);

/** The prompts of an agent. */
export const agentPrompts = name("AgentPrompts", z.object({ prompts: z.array(agentPrompt) }));

/** What became of a prompt. */
export const prompted = name(
  "Prompted",
  z.object({
    agent: agent.describe("Who gets it: another agent goes on with the session of one that ended."),
    prompt: agentPrompt.nullable().describe("Null: it is the task of the agent that goes on."),
  }),
);
