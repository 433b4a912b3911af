/** @module `sublet prompt`: tell an agent something, while it runs or after. */

import type { Command } from "@commander-js/extra-typings";
import { SubletError } from "../home/mod.ts";
import { ApiClient } from "./api_client.ts";
import { Output } from "./output.ts";
import { integer, spoken } from "./parse.ts";
import type { AgentView, PromptView } from "./views.ts";

/** How long the worker's answer is waited for, seconds. */
const WAIT = 20;

/** What a prompt's state means. */
const MEANS: Readonly<Record<PromptView["state"], string>> = {
  waiting: "the agent has not started: it gets it when it does",
  sent: "its worker has not answered yet: it gets it once it is heard again",
  queued: "the agent gets it at its next turn",
  read: "the agent has read it",
  unread:
    "the agent ended before it read it: send it again, and a new job goes on with its session",
  refused: "refused",
};

/** Add the command. */
export function addPrompt(root: Command): void {
  root.command("prompt")
    .description(
      "Tell an agent something: at its next turn or, when it ended, by a new job that goes on with its session.",
    )
    .argument("<job>", "the job's number", integer(1, Number.MAX_SAFE_INTEGER))
    .argument("<text>", "what to say; - reads it from stdin")
    .option("--no-wait", "do not wait for the worker's answer")
    .option("--json", "print one JSON document")
    .action(async (job, words, options) => {
      const output = new Output(options);
      const text = await spoken(words);
      using api = await ApiClient.open();
      const { agent, prompt } = await api.call<{ agent: AgentView; prompt: PromptView | null }>(
        "POST",
        `/v1/jobs/${job}/prompts`,
        { text },
      );
      const last = prompt === null || !options.wait
        ? prompt
        : await api.call<PromptView>("GET", `/v1/prompts/${prompt.prompt}?wait=${WAIT}`);
      if (output.json) output.document({ agent, prompt: last });
      else say(output, job, agent, last);
      if (last?.state === "refused") {
        throw new SubletError("conflict", `job ${job} took no prompt: ${last.error ?? "refused"}`);
      }
    });
}

function say(output: Output, job: number, agent: AgentView, prompt: PromptView | null): void {
  if (prompt === null) {
    output.table(["job", "agent", "state"], [[
      String(agent.job ?? ""),
      String(agent.agent),
      agent.state,
    ]]);
    output.note(`job ${job} had ended: job ${agent.job} goes on with its session`);
  } else if (prompt.state !== "refused") {
    output.table(["job", "prompt", "state"], [[String(job), String(prompt.prompt), prompt.state]]);
    output.note(MEANS[prompt.state]);
  }
}
