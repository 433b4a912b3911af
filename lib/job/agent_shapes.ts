/**
 * @module An agent's job and what comes back of it, as JSON. Shapes follow piloop 0.3.1 (worker protocol 7), which
 * ignores the keys that are ours; each of those is optional, and says so.
 */

import * as z from "zod";
import { cidText, filesByPath, placeOfJob, relativePath, revision, source } from "./shapes.ts";

/** The name of an environment variable, and of a secret. */
export const variableName = z.string().max(256).regex(
  /^[A-Za-z_][A-Za-z0-9_]*$/,
  "is no name of a variable: letters, digits and '_', the first no digit",
);

/** Text of an argument or a variable: no operating system takes a NUL. */
const argument = z.string().refine((text) => !text.includes("\0"), { error: "holds a NUL" });

/**
 * What starts an agent on any machine. `{cwd}` and `{log_dir}` in the arguments are the worker's to fill in;
 * `{prompt}`, and `{session_id}` where the harness reports its own, stay in `resume_args` until a prompt comes.
 */
export const agentStart = z.object({
  executable: argument.min(1),
  args: z.array(argument),
  env: z.record(variableName, argument).default({}),
  /** A regular expression whose first group is the session's id, in the program's stdout. */
  session_id_pattern: z.string().nullable().default(null),
  /** Empty: the harness cannot go on with a session. */
  resume_args: z.array(argument).default([]),
});
export type AgentStart = z.output<typeof agentStart>;

/** An MCP server of the agent's, by `url` (streamable HTTP) or `command` (stdio). Variables are named, never valued. */
export const mcpServer = z.object({
  url: z.string().nullable().default(null),
  headers_env: z.record(z.string(), variableName).default({}),
  bearer_token_env: variableName.nullable().default(null),
  command: z.array(argument).min(1).nullable().default(null),
  env: z.array(variableName).default([]),
});
export type McpServer = z.output<typeof mcpServer>;

/** How a harness names the folder of a working directory. */
export const CWD_NAMES = ["none", "dash_separators_wrapped", "dash_non_alnum"] as const;

/** Where a harness keeps its session, and how tokens are read from it. */
export const usageSpec = z.object({
  reader: z.string().default("jsonl"),
  /** A glob with `{home}`, `{env:NAME:default}`, `{cwd}` and `{session_id}`. */
  file: z.string().nullable().default(null),
  cwd: z.string().default("none"),
  /** The file's format: `claude`, `codex` or `pi`. */
  tally: z.string().nullable().default(null),
});
export type UsageSpec = z.output<typeof usageSpec>;

/** A session to go on with, which another job left. Ours. */
export const resumedSession = z.object({
  session_id: z.string().min(1).max(1024),
  /** Its file as the last job left it; null: the harness keeps it somewhere else, or it is lost. */
  file: cidText.nullable().default(null),
  /** Where that file was beneath the harness's own directory, which is the fixed start of `usage.file`. */
  name: relativePath("resume.name").nullable().default(null),
  /** The checkout that the session was in, since file names of some harnesses hold it. */
  cwd: z.string().nullable().default(null),
});
export type ResumedSession = z.output<typeof resumedSession>;

/** Run a coding agent on a checkout. */
export const agentJob = z.object({
  kind: z.literal("agent"),
  /** Id of the agent: the job's key. */
  agent_session: z.int(),
  runtime: z.string().default("subprocess"),
  artifact: source,
  /** Log directory beneath the worker's home, used as it is; `worktree` in it is the checkout. */
  place: placeOfJob,
  /** Seconds that it may run from its start, also across restarts of its worker. */
  timeout: z.number().positive(),
  /** A text, for `brief.md` in the log directory. */
  brief_cid: cidText.nullable(),
  /** Null: only for an agent of a piloop that knew no leases; it cannot be started. */
  spec: agentStart.nullable(),
  /** What renders `{mcp}`: `claude`, `codex` or `pi`. Null: the element is dropped. */
  mcp: z.string().nullable().default(null),
  servers: z.record(z.string().regex(/^[A-Za-z0-9_-]+$/), mcpServer).default({}),
  /** Variable of its environment: the name of the secret that it holds. */
  secrets: z.record(variableName, variableName).default({}),
  usage: usageSpec.nullable().default(null),
  /** The session's id where the job's maker chose it; null: the harness reports it. */
  session_id: z.string().nullable().default(null),
  /** For whom unsaved work is saved and brought back; null: nothing that it saves comes back. */
  capture: z.int().nullable().default(null),
  /** Ours. Null: a new session. */
  resume: resumedSession.nullable().default(null),
});
export type AgentJob = z.output<typeof agentJob>;

/** How the process ended. Seconds of all its turns. */
export const agentExit = z.object({
  status: z.enum(["exited", "timed_out"]),
  seconds: z.number(),
  exit_code: z.int().nullable().default(null),
  error: z.string().nullable().default(null),
});
export type AgentExit = z.output<typeof agentExit>;

const count = z.int().min(0);

/** Tokens of a session: `input` without what the cache served, `total` as the harness counts, `turns` responses. */
export const agentUsage = z.object({
  input: count,
  output: count,
  cache_read: count,
  cache_write: count,
  total: count,
  turns: count,
  /** The file that they were read from. */
  source: z.string(),
});
export type AgentUsage = z.output<typeof agentUsage>;

/** Versions in the CAS: what `head` has beyond the job's revision, as a bundle. */
export const agentWork = z.object({ blob: cidText, head: revision });
export type AgentWork = z.output<typeof agentWork>;

/** The harness's session as the agent left it. Ours. See {@linkcode resumedSession}. */
export const agentSessionFile = z.object({
  file: cidText,
  name: relativePath("session.name"),
  cwd: z.string().nullable().default(null),
});
export type AgentSessionFile = z.output<typeof agentSessionFile>;

/** A name that the agent gave to versions beside its head. Ours. */
export const agentBranch = z.object({ name: z.string().max(255), revision });
export type AgentBranch = z.output<typeof agentBranch>;

/** A path of the checkout that could not be saved. Ours. */
export const agentLeftOut = z.object({ path: z.string().max(4096), reason: z.string().max(4096) });

/** An agent's process ended. */
export const agentFinished = z.object({
  kind: z.literal("agent_finished"),
  process: agentExit,
  session_id: z.string().nullable().default(null),
  usage: agentUsage.nullable().default(null),
  /** Whether it changed its checkout, saved or not. */
  changed: z.boolean().default(true),
  work: agentWork.nullable().default(null),
  /** Files of its log directory. */
  files: filesByPath.default({}),
  /** Prompts that it read, and those that still waited. */
  read: z.array(z.int()).default([]),
  unread: z.array(z.int()).default([]),
  /** Files of the shared workspace that it wrote, or removed (null). */
  workspace: z.record(relativePath("workspace"), cidText.nullable()).default({}),
  /** Ours, as what follows. */
  session: agentSessionFile.nullable().default(null),
  /** Versions of `work` that its head does not lead to. */
  branches: z.array(agentBranch).max(1000).default([]),
  left_out: z.array(agentLeftOut).max(1000).default([]),
  /** How many paths could not be saved. */
  left_out_count: z.int().min(0).default(0),
  /** What a reader should know of what was saved, in words. */
  notes: z.array(z.string().max(4096)).max(100).default([]),
});
export type AgentFinished = z.output<typeof agentFinished>;

/** No process ran: the checkout, the secrets or the start failed, or a stop came first. */
export const agentNotStarted = z.object({
  kind: z.literal("agent_not_started"),
  reason: z.string(),
  /** How long it tried. */
  seconds: z.number().default(0),
  files: filesByPath.default({}),
});
export type AgentNotStarted = z.output<typeof agentNotStarted>;

/** What an agent's job came to. */
export const agentReport = z.discriminatedUnion("kind", [agentFinished, agentNotStarted]);
export type AgentReport = z.output<typeof agentReport>;
