/**
 * @module The harnesses that need no table: Claude Code, Codex and pi, each without questions, since nobody is there to
 * answer them, and `command`, any program. Arguments are those of claude 2.1, codex 0.5x and pi 0.99.
 */

import type { HarnessTable } from "./harness_config.ts";

/** The harness that runs a program of the asker's. */
export const COMMAND = "command";

const CLAUDE_HOME = "{env:CLAUDE_CONFIG_DIR:~/.claude}";
const CODEX_HOME = "{env:CODEX_HOME:~/.codex}";
const PI_HOME = "{env:PI_CODING_AGENT_DIR:~/.pi/agent}";

/** Gives a running turn the prompts that wait, after each tool. It costs a look at a file when there is none. */
const CLAUDE_HOOK =
  'q="${SUBLET_MESSAGES:-$PILOOP_MESSAGES}"; if [ -s "$q" ]; then exec "${SUBLET_BIN:-$PILOOP_BIN}" agent messages --format claude-hook; fi';

/** Memory is off: what one agent notes would reach every later one. Long commands go to the background after 5 minutes. */
const CLAUDE_SETTINGS = JSON.stringify({
  autoMemoryEnabled: false,
  env: { BASH_DEFAULT_TIMEOUT_MS: "300000", BASH_MAX_TIMEOUT_MS: "600000" },
  hooks: { PostToolUse: [{ hooks: [{ type: "command", command: CLAUDE_HOOK }] }] },
});

function claude(...session: string[]): string[] {
  return [
    "-p",
    "--output-format",
    "json",
    ...session,
    "--model",
    "{model}",
    "--effort",
    "{effort}",
    "--dangerously-skip-permissions",
    "{mcp}",
    "--settings",
    CLAUDE_SETTINGS,
    "{prompt}",
  ];
}

/** The checkout is trusted for this call only, and commands get the agent's own environment. */
function codex(command: readonly string[], ...session: string[]): string[] {
  const set = (value: string) => ["-c", value];
  return [
    ...command,
    "--json",
    "--dangerously-bypass-approvals-and-sandbox",
    "--skip-git-repo-check",
    "--model",
    "{model}",
    ...set('model_reasoning_effort="{effort}"'),
    ...set("features.memories=false"),
    ...set('projects={"{cwd}"={trust_level="trusted"}}'),
    ...set('shell_environment_policy.inherit="all"'),
    ...set("shell_environment_policy.ignore_default_excludes=true"),
    ...set("shell_environment_policy.include_only=[]"),
    "{mcp}",
    ...session,
    "{prompt}",
  ];
}

/** `--session-id` makes a session, and goes on with one that there is. */
const PI = [
  "-p",
  "--mode",
  "json",
  "--no-extensions",
  "--no-skills",
  "--no-context-files",
  "--approve",
  "--session-id",
  "{session_id}",
  "--model",
  "{model}",
  "--thinking",
  "{effort}",
  "{mcp}",
  "{prompt}",
];

/** The built-in harnesses, by name. */
export const BUILT_IN: Readonly<Record<string, HarnessTable>> = {
  claude: {
    executable: "claude",
    headless: claude("--session-id", "{session_id}"),
    resume: claude("--resume", "{session_id}"),
    home: CLAUDE_HOME,
    session_env: [
      "CLAUDECODE",
      "CLAUDE_CODE_CHILD_SESSION",
      "CLAUDE_CODE_ENTRYPOINT",
      "CLAUDE_CODE_EXECPATH",
      "CLAUDE_CODE_MESSAGING_SOCKET",
      "CLAUDE_CODE_MESSAGING_TOKEN",
      "CLAUDE_CODE_SESSION_ATTENDED",
      "CLAUDE_CODE_SESSION_ID",
      "CLAUDE_EFFORT",
      "CLAUDE_PID",
    ],
    usage: {
      reader: "jsonl",
      file: `${CLAUDE_HOME}/projects/{cwd}/{session_id}.jsonl`,
      cwd: "dash_non_alnum",
      tally: "claude",
    },
    mcp: "claude",
  },
  codex: {
    executable: "codex",
    headless: codex(["exec"]),
    resume: codex(["exec", "resume"], "{session_id}"),
    session_id_pattern: '"thread_id":"([0-9a-f-]{36})"',
    home: CODEX_HOME,
    usage: {
      reader: "jsonl",
      file: `${CODEX_HOME}/sessions/*/*/*/rollout-*-{session_id}.jsonl`,
      cwd: "none",
      tally: "codex",
    },
    mcp: "codex",
  },
  pi: {
    executable: "pi",
    headless: PI,
    resume: PI,
    home: PI_HOME,
    usage: {
      reader: "jsonl",
      file: `${PI_HOME}/sessions/{cwd}/*_{session_id}.jsonl`,
      cwd: "dash_separators_wrapped",
      tally: "pi",
    },
    mcp: "pi",
  },
  [COMMAND]: {},
};
