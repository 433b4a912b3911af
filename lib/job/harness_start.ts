/** @module What starts an agent: a harness's arguments, filled in as far as the server can. */

import { type AgentStart, agentStart } from "./agent_shapes.ts";
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
  /** Null: the first prompt, which names the brief's file. */
  readonly prompt: string | null;
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

/**
 * What starts an agent of `harness`. With `values.prompt` and a session it goes on with that session; `{cwd}` and
 * `{log_dir}` stay for the worker.
 */
export function startOf(harness: Harness, values: StartValues): AgentStart {
  const { model, effort, sessionId, prompt, actor } = values;
  const first = { model, effort, brief: `{log_dir}/${BRIEF_FILE}` };
  const args = prompt === null
    ? fillAll(harness.headless, { ...first, session_id: sessionId, prompt: FIRST_PROMPT })
    : fillAll(harness.resume, { ...first, session_id: sessionId, prompt });
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

/** Variables of the agent's environment that hold a secret, with the secret's name, as the harness's table says. */
export function secretsOf(harness: Harness): Record<string, string> {
  return Object.fromEntries(
    Object.entries(harness.env).flatMap(([name, value]) =>
      typeof value === "string" ? [] : [[name, value.secret]]
    ),
  );
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
