/** @module One turn of an agent: its program, started in the checkout with what the job says. */

import { dirname } from "node:path";
import { type ProcessRef, SubletError } from "../home/mod.ts";
import { checkArgs, expandMcp, fill, MAX_ARGUMENT_BYTES, MCP, type Values } from "./agent_argv.ts";
import { type AgentContext, type Given, isPiloops } from "./agent_context.ts";
import { checkServers, type McpHost, renderClaude, type Rendered, renderPi } from "./agent_mcp.ts";
import { renderCodex } from "./agent_mcp_codex.ts";
import type { AgentStart } from "./agent_shapes.ts";
import { tailOf } from "./run_logs.ts";

/** What begins a turn. */
export interface Turn {
  /** From 1. */
  readonly number: number;
  /** Of the job's spec: those of the first turn, or those that go on with the session. */
  readonly args: readonly string[];
  readonly prompt?: string;
  readonly sessionId: string | null;
  /** Milliseconds since 1970 at which the agent is stopped. */
  readonly deadline: number;
}

/** How long after the deadline an agent that nobody watches is killed, seconds. */
const UNWATCHED_SECONDS = 120;
const MAX_SECONDS = 1e9;
const ASK_MS = 30_000;
const MAX_ANSWER = 1024 * 1024;

/** Start `turn`. Throws `failed` when its program cannot start, or cannot be given its servers. */
export async function startTurn(
  context: AgentContext,
  spec: AgentStart,
  given: Given,
  turn: Turn,
): Promise<ProcessRef> {
  const { site, place, tag } = context;
  const { stdout, stderr } = place.output(turn.number);
  const values = await valuesOf(context, turn);
  const base = environment(context, spec, given, turn);
  const args = fill(turn.args, values);
  const rendered = await render(context, { spec, args, env: base, given, turn });
  const argv = [spec.executable, ...expandMcp(args, rendered.args)];
  checkArgs(argv);
  return await site.processes.start({
    argv,
    cwd: place.worktree,
    env: { ...base, ...rendered.env },
    stdout: `${place.root}/${stdout}`,
    stderr: `${place.root}/${stderr}`,
    tag,
    place: place.root,
    pathFirst: dirname(given.door.program),
    outlives: {
      exit: place.own(place.exit(turn.number)),
      seconds: Math.min(
        Math.max(1, (turn.deadline - site.clock.now()) / 1000) + UNWATCHED_SECONDS,
        MAX_SECONDS,
      ),
    },
  });
}

/** What fills the arguments in. A prompt that no argument holds goes into a file that the prompt then names. */
async function valuesOf({ place }: AgentContext, turn: Turn): Promise<Values> {
  const { prompt, sessionId, number } = turn;
  let said = prompt;
  if (prompt !== undefined && new TextEncoder().encode(prompt).length > MAX_ARGUMENT_BYTES / 2) {
    const name = `prompt-${number}.md`;
    await Deno.writeTextFile(`${place.root}/${name}`, prompt, { createNew: true });
    said =
      `A message for you is in the file ${place.root}/${name}. Read all of it, and do what it says.`;
  }
  return {
    cwd: place.worktree,
    log_dir: place.root,
    brief: `${place.root}/brief.md`,
    ...(said === undefined ? {} : { prompt: promptOf(said) }),
    ...(sessionId === null ? {} : { session_id: sessionId }),
  };
}

/** A prompt as an argument: not taken for an option of its program. */
function promptOf(text: string): string {
  const plain = text.replaceAll("\0", "");
  return plain.startsWith("-") ? `\n${plain}` : plain;
}

/** The environment, later over earlier: secrets, the job's own, the worker's. */
function environment(
  { site, job, messages }: AgentContext,
  spec: AgentStart,
  { secrets, door }: Given,
  { deadline }: Turn,
): Record<string, string> {
  const own = {
    HOME: site.home,
    BIN: door.program,
    DEADLINE: String(Math.floor(deadline / 1000)),
    MESSAGES: messages.flag,
  };
  const prefixes = isPiloops(job) ? ["SUBLET", "PILOOP"] : ["SUBLET"];
  const named = prefixes.flatMap((prefix) =>
    Object.entries(own).map(([name, value]) => [`${prefix}_${name}`, value] as const)
  );
  return { ...secrets, ...spec.env, ...door.env, ...Object.fromEntries(named) };
}

/** What a rendering goes by. */
interface Rendering {
  readonly spec: AgentStart;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly given: Given;
  readonly turn: Turn;
}

async function render(context: AgentContext, rendering: Rendering): Promise<Rendered> {
  const { job } = context;
  const { args } = rendering;
  const names = Object.keys(job.servers);
  if (!args.includes(MCP)) {
    if (names.length === 0) return { args: [], env: {} };
    throw new SubletError(
      "failed",
      `the agent's harness takes no MCP servers, and its job has ${names.join(", ")}`,
    );
  }
  checkServers(job.servers);
  switch (job.mcp) {
    case "claude":
      return renderClaude(job.servers);
    case "pi":
      return await renderPi(job.servers, hostOf(context, rendering));
    case "codex":
      return await renderCodex(job.servers, hostOf(context, rendering));
    default:
      if (names.length === 0) return { args: [], env: {} };
      throw new SubletError(
        "failed",
        `this worker renders MCP servers for claude, codex and pi, not for ${
          JSON.stringify(job.mcp)
        }`,
      );
  }
}

function hostOf(context: AgentContext, rendering: Rendering): McpHost {
  const { place } = context;
  let asked = 0;
  return {
    args: rendering.args,
    async write(name, text) {
      await place.write(name, text);
      return place.own(name);
    },
    ask: (args) => ask(context, rendering, args, `ask-${rendering.turn.number}-${++asked}`),
  };
}

/** Run the harness's program as the agent would run, and return what it printed. */
async function ask(
  { site, place, tag, control }: AgentContext,
  { spec, env, given }: Rendering,
  args: readonly string[],
  name: string,
): Promise<string> {
  const argv = [spec.executable, ...args];
  const stdout = place.own(`${name}.stdout`);
  const stderr = place.own(`${name}.stderr`);
  const process = await site.processes.start({
    argv,
    cwd: place.worktree,
    env,
    stdout,
    stderr,
    tag,
    // No place: what an earlier turn left running there is not to be stopped with it.
    pathFirst: dirname(given.door.program),
  });
  const late = new AbortController();
  const stop = AbortSignal.any([late.signal, control.stop]);
  try {
    const exit = await Promise.race([
      site.processes.wait(process),
      site.clock.sleep(ASK_MS, stop).then(() => null),
    ]);
    const said = (file: string, bytes: number) => tailOf(place.root, `.run/${name}.${file}`, bytes);
    if (exit?.code === 0) return await said("stdout", MAX_ANSWER);
    const what = `${spec.executable} ${args.slice(-3).join(" ")}`;
    throw new SubletError(
      "failed",
      exit === null
        ? `${what} took longer than ${ASK_MS / 1000} s, or the job was to stop`
        : `${what} ended with ${exit.code ?? exit.signal}: ${(await said("stderr", 500)).trim()}`,
    );
  } finally {
    late.abort();
    await site.processes.stop(process, null, 0);
  }
}
