/** @module What starts an agent: a harness's arguments, filled in as far as the server can. */

import { type AgentStart, agentStart, type McpServer } from "./agent_shapes.ts";
import type { Harness } from "./harness.ts";
import { holds } from "./harness_config.ts";

/** The brief's file in the log directory. */
export const BRIEF_FILE = "brief.md";

/** What fills a harness's arguments in. */
export interface StartValues {
  /** Null: the options that take it are left out. */
  readonly model: string | null;
  readonly effort: string | null;
  /** The session's id where the server makes it. */
  readonly sessionId: string | null;
  /** Null: the prompt that names the brief's file. */
  readonly prompt: string | null;
  /** Whether it goes on with the session. */
  readonly resumes: boolean;
  /** Who signs what the agent writes, such as `agent#7`. */
  readonly actor: string;
}

/**
 * The first prompt. It names the file instead of holding the brief, since Linux takes no argument of over 128 KiB.
 */
const FIRST_PROMPT =
  `Your task is in the file {log_dir}/${BRIEF_FILE}. Read the whole file, in several reads if one is cut short, and do what it says.`;

/** Whether the server makes the session's id for `harness`. */
export function makesSessionId(harness: Harness): boolean {
  return holds(harness.headless, "{session_id}");
}

/** What starts an agent of `harness`. `{cwd}` and `{log_dir}` stay for the worker. */
export function startOf(harness: Harness, values: StartValues): AgentStart {
  const { model, effort, sessionId, prompt, resumes, actor } = values;
  const first = { model, effort, brief: `{log_dir}/${BRIEF_FILE}` };
  const args = fillAll(resumes ? harness.resume : harness.headless, {
    ...first,
    session_id: sessionId,
    prompt: prompt ?? FIRST_PROMPT,
  });
  const env: Record<string, string> = {};
  for (const name of harness.sessionEnv) env[name] = "";
  for (const [name, value] of Object.entries(harness.env)) {
    if (typeof value === "string") env[name] = value;
  }
  return agentStart.parse({
    executable: harness.executable,
    args,
    env: { ...env, PILOOP_ACTOR: actor, SUBLET_ACTOR: actor },
    session_id_pattern: harness.sessionIdPattern,
    resume_args: fillAll(harness.resume, {
      ...first,
      session_id: sessionId ?? "{session_id}",
      prompt: "{prompt}",
    }),
  });
}

/**
 * Variables of the agent's environment that hold a secret, with the secret's name: as the harness's table says, and those
 * that its servers name, each the secret of its own name unless the table gives it something.
 */
export function secretsOf(
  harness: Harness,
  servers: Readonly<Record<string, McpServer>>,
): Record<string, string> {
  const secrets: Record<string, string> = {};
  for (const { headers_env, bearer_token_env, env } of Object.values(servers)) {
    const bearer = bearer_token_env === null ? [] : [bearer_token_env];
    for (const name of [...Object.values(headers_env), ...bearer, ...env]) secrets[name] = name;
  }
  for (const [name, value] of Object.entries(harness.env)) {
    if (typeof value === "string") delete secrets[name];
    else secrets[name] = value.secret;
  }
  return secrets;
}

/** `args` with their placeholders filled in at once: what a value holds is not filled in again. */
function fillAll(
  args: readonly string[],
  values: Readonly<Record<string, string | null>>,
): string[] {
  const filled: string[] = [];
  for (const each of args) {
    let lacking = false;
    const text = each.replaceAll(/\{([a-z_]+)\}/g, (placeholder, name: string) => {
      if (!Object.hasOwn(values, name)) return placeholder;
      lacking ||= values[name] === null;
      return values[name] ?? "";
    });
    if (!lacking) filled.push(text);
    else if (!each.startsWith("-") && filled.at(-1)?.startsWith("-")) filled.pop();
  }
  return filled;
}
