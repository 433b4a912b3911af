/**
 * @module `[harness.NAME]`: how a coding agent's program is called, and `[mcp.NAME]`: the servers that it gets. They
 * stand in a home's `config.toml` or, over that, in a campaign's file. Keys follow piloop 0.3.1.
 */

import * as z from "zod";
import { CWD_NAMES, mcpServer, variableName } from "./agent_shapes.ts";

/** What `{mcp}` may be rendered for. */
export const MCP_RENDERERS = ["claude", "codex", "pi"] as const;
/** Formats of session files from which tokens are read. */
export const TALLIES = ["claude", "codex", "pi"] as const;

const text = z.string({ error: "must be text" })
  .refine((value) => !value.includes("\0"), { error: "must not hold a NUL" });
const argv = z.array(text, { error: "must be a list of texts" }).max(1000);
/** Names a harness or a server. */
export const tableName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, {
  error: "a name is 1 to 64 letters, digits, '_' and '-'",
});

/** `{ secret = "NAME" }`: the value of a secret, in place of a text. */
export const secretRef = z.strictObject({ secret: variableName }, {
  error: 'must be a text, or { secret = "NAME" }',
});

/** `[harness.NAME.usage]`. */
const usageTable = z.strictObject({
  reader: z.literal("jsonl", { error: "must be 'jsonl', the only one" }).default("jsonl"),
  file: text,
  cwd: z.enum(CWD_NAMES, { error: `must be one of ${CWD_NAMES.join(", ")}` }).default("none"),
  tally: z.enum(TALLIES, { error: `must be one of ${TALLIES.join(", ")}` }),
}, { error: "must be a table" });

/** `[harness.NAME]`. A table with the name of a built-in one changes the keys that it holds. */
export const harnessTable = z.strictObject({
  executable: text.min(1, "must not be empty").optional(),
  headless: argv.refine((args) => holds(args, "{prompt}") || holds(args, "{brief}"), {
    error: "must hold {prompt} or {brief}",
  }).optional(),
  resume: argv.refine(
    (args) => args.length === 0 || (holds(args, "{prompt}") && holds(args, "{session_id}")),
    { error: "must hold {prompt} and {session_id}" },
  ).optional(),
  session_id_pattern: text.max(1000).refine(hasGroup, {
    error: "must be a regular expression with a group, which is the session's id",
  }).optional(),
  usage: usageTable.optional(),
  /** Where it keeps its settings and sessions; for people, since `usage.file` says it again. */
  home: text.optional(),
  /** Variables that it sets for what it starts: emptied for each agent. */
  session_env: z.array(variableName).max(100).optional(),
  mcp: z.enum(MCP_RENDERERS, { error: `must be one of ${MCP_RENDERERS.join(", ")}` }).optional(),
  env: z.record(
    variableName,
    z.union([text, secretRef], {
      error: 'must be a text, or { secret = "NAME" }',
    }),
  ).optional(),
}, { error: "must be a table" });
export type HarnessTable = z.output<typeof harnessTable>;

/** `[harness]`, by name. */
export const harnessTables = z.record(tableName, harnessTable, { error: "must be a table" });

/** `[mcp.NAME]`: variables are named, since a file is no place for a key. */
export const mcpTable = z.strictObject(mcpServer.shape, { error: "must be a table" })
  .superRefine(({ url, command, headers_env, bearer_token_env, env }, context) => {
    const wrong = (key: string, message: string) =>
      context.addIssue({ code: "custom", path: [key], message });
    if ((url === null) === (command === null)) {
      wrong("url", "an MCP server has either a url (streamable HTTP) or a command (stdio)");
    }
    if (url !== null && !/^https?:\/\//.test(url)) wrong("url", "must be an http or https URL");
    if (url === null && bearer_token_env !== null) wrong("bearer_token_env", "needs a url");
    if (url === null && Object.keys(headers_env).length > 0) wrong("headers_env", "needs a url");
    if (command === null && env.length > 0) wrong("env", "needs a command");
    const authorization = Object.keys(headers_env).some((key) =>
      key.toLowerCase() === "authorization"
    );
    if (authorization && bearer_token_env !== null) {
      wrong("bearer_token_env", "sets Authorization, which headers_env has already");
    }
  });

/** `[mcp]`, by name. */
export const mcpTables = z.record(tableName, mcpTable, { error: "must be a table" });

/** `[roles.NAME]`: what agents of a role get. Keys that only piloop's planner reads are taken and kept. */
export const roleTable = z.looseObject({
  /** A file of the checkout that starts the brief. */
  prompt: text.optional(),
  /** A file of the checkout that follows the campaign's `brief.md`. */
  addendum: text.optional(),
  harnesses: z.array(text).min(1, "must name at least one harness").optional(),
  model: z.record(z.string(), text).optional(),
  effort: text.optional(),
  /** Seconds that an agent may run. */
  timeout: z.number().positive("must be greater than 0").max(30 * 86_400, "must be at most 30 days")
    .optional(),
  mcp: z.array(text).optional(),
}, { error: "must be a table" });
export type RoleTable = z.output<typeof roleTable>;

/** A role's name: it signs what its agents write, and stands in the names of files that are kept beside. */
export const roleName = z.string().regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, {
  error: "a role is 1 to 64 letters, digits, '_' and '-', the first a letter",
});

/** `[roles]`, by name. */
export const roleTables = z.record(roleName, roleTable, { error: "must be a table" });

/** Whether an argument of `args` holds `placeholder`. */
export function holds(args: readonly string[], placeholder: string): boolean {
  return args.some((each) => each.includes(placeholder));
}

function hasGroup(pattern: string): boolean {
  try {
    // An alternative that matches nothing tells how many groups there are.
    return (new RegExp(`${pattern}|`).exec("")?.length ?? 0) > 1;
  } catch {
    return false;
  }
}
