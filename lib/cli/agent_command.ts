/** @module `sublet agent`: have a coding agent do something on a checkout, and follow what it says. */

import { Argument, type Command, InvalidArgumentError } from "@commander-js/extra-typings";
import { agentResult, tellWaits, waitForAgent } from "./agent_result.ts";
import { ApiClient } from "./api_client.ts";
import { show } from "./attach_command.ts";
import { Finished } from "./finished.ts";
import { Output } from "./output.ts";
import { duration, integer, spoken } from "./parse.ts";
import type { AgentView } from "./views.ts";

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Add the command. */
export function addAgent(root: Command): void {
  root.command("agent")
    .description("Have a coding agent work on a commit, on any worker; its commits come back.")
    .addArgument(new Argument("<prompt>", "what is to be done; - reads it from stdin"))
    .argument("[command...]", "after --: what --harness command runs; {brief} is the prompt's file")
    .option("--base <revision>", "the commit, branch or tag to start from (default: HEAD)")
    .option("--harness <name>", "claude, codex, pi, command, or one of a table [harness.NAME]")
    .option("--model <model>", "the model, as the harness names it")
    .option("--effort <effort>", "how hard it thinks, as the harness names it")
    .option("--role <role>", "a role of the campaign's file")
    .option("--timeout <duration>", "how long it may run, such as 30m or 4h", duration)
    .option("--secret <name>", "a secret for its environment: NAME, or VARIABLE=NAME", secret, {})
    .option("--label <label>", "only on workers with this label", collect, [])
    .option(
      "--campaign <name>",
      "the campaign (default: the one whose checkout this directory is in)",
    )
    .option("--pool <pool>", "only on workers of this pool")
    .option("--priority <n>", "higher goes first", integer(-1000, 1000))
    .option("--dedup <key>", "names this request: asked again, it starts nothing twice")
    .option("--no-wait", "print the queued agent and leave")
    .option("--json", "print one JSON line for the agent")
    .addHelpText(
      "after",
      `
Exit code 0 when it finished, 3 when it was cancelled or ran out of time, 1 otherwise.

Examples:
  sublet agent "make the tests pass" --base main
  sublet agent "tidy up" --harness command -- ./my-agent --task {brief}`,
    )
    .action(async (prompt, command, options) => {
      const output = new Output(options);
      const text = await spoken(prompt);
      using api = await ApiClient.open();
      const agent = await api.call<AgentView>("POST", "/v1/agents", bodyOf(text, command, options));
      if (!options.wait) return print(output, agent);
      await follow(api, output, agent);
    });
}

interface AgentOptions {
  readonly base?: string | undefined;
  readonly harness?: string | undefined;
  readonly model?: string | undefined;
  readonly effort?: string | undefined;
  readonly role?: string | undefined;
  readonly timeout?: number | undefined;
  readonly secret: Readonly<Record<string, string>>;
  readonly label: readonly string[];
  readonly campaign?: string | undefined;
  readonly pool?: string | undefined;
  readonly priority?: number | undefined;
  readonly dedup?: string | undefined;
}

function bodyOf(prompt: string, command: readonly string[], options: AgentOptions) {
  const { timeout, secret: secrets, label: labels, campaign } = options;
  return {
    prompt,
    ...(campaign === undefined ? { path: Deno.cwd() } : { campaign }),
    base: options.base,
    harness: options.harness,
    model: options.model,
    effort: options.effort,
    role: options.role,
    timeout: timeout === undefined ? undefined : timeout / 1000,
    pool: options.pool,
    priority: options.priority,
    dedup: options.dedup,
    ...(command.length === 0 ? {} : { command }),
    ...(Object.keys(secrets).length === 0 ? {} : { secrets }),
    ...(labels.length === 0 ? {} : { labels }),
  };
}

/** Print what the agent says until it ends, then what it came to. */
export async function follow(api: ApiClient, output: Output, agent: AgentView): Promise<void> {
  if (!output.json) {
    output.note(
      `job ${agent.job} queued; Ctrl-C leaves it running, \`sublet attach ${agent.job}\` shows it again`,
    );
    // It ends with the command: whatever fails there fails below, too.
    tellWaits(api, agent, (why) => output.note(`waits: ${why}`)).catch(() => {});
    await show(api, output, agent, { from: 0, raw: false, follow: true });
  }
  const last = await waitForAgent(api, agent.agent);
  const { exit, lines } = agentResult(last);
  if (output.json) output.line(JSON.stringify(last));
  else for (const line of lines) output.note(line);
  if (exit !== 0) throw new Finished(exit);
}

function print(output: Output, agent: AgentView): void {
  if (output.json) return output.line(JSON.stringify(agent));
  output.table(["job", "agent", "harness", "base", "state"], [[
    String(agent.job ?? ""),
    String(agent.agent),
    agent.harness,
    agent.base.slice(0, 10),
    agent.state,
  ]]);
}

function secret(
  text: string,
  before: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const [variable = "", name = variable] = text.split("=");
  if (VARIABLE.test(variable) && VARIABLE.test(name)) return { ...before, [variable]: name };
  throw new InvalidArgumentError(
    "give the name of a secret, NAME or VARIABLE=NAME; its value is set with `sublet secret set`.",
  );
}

function collect(text: string, before: readonly string[]): readonly string[] {
  return [...before, text];
}
