/** @module `sublet attach`: what an agent says, from any offset, while it runs and after. */

import type { Command } from "@commander-js/extra-typings";
import { SubletError } from "../home/mod.ts";
import { agentResult, waitForAgent } from "./agent_result.ts";
import { ApiClient } from "./api_client.ts";
import { Finished } from "./finished.ts";
import { followStream } from "./follow_stream.ts";
import { Output } from "./output.ts";
import { integer } from "./parse.ts";
import { agentEnded, type AgentView } from "./views.ts";

/** What an agent without a session prints. */
const STDOUT = "agent_session.stdout";

/** Add the command. */
export function addAttach(root: Command): void {
  root.command("attach")
    .description("Follow what an agent says, on whatever worker it runs, until it ends.")
    .argument("<job>", "the job's number", integer(1, Number.MAX_SAFE_INTEGER))
    .option("--from <offset>", "start at this byte", integer(0, Number.MAX_SAFE_INTEGER), 0)
    .option("--raw", "print the bytes of its session's file instead of what it says")
    .option("--stream <name>", "follow another file of the job, such as agent_session.stderr")
    .option("--no-follow", "print what there is, and leave")
    .option("--json", "print one JSON line for each piece")
    .addHelpText(
      "after",
      "\nCtrl-C leaves the agent running. The exit code is the agent's: 0 finished, 3 cancelled or timed out, 1 otherwise.",
    )
    .action(async (job, options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      const agent = await agentOf(api, job);
      const { next } = await show(api, output, agent, {
        from: options.from,
        raw: options.raw === true,
        follow: options.follow,
        ...(options.stream === undefined ? {} : { stream: options.stream }),
      });
      if (!options.follow && !agentEnded(agent)) {
        output.note(`job ${job} goes on: --from ${next} shows what follows`);
        return;
      }
      const last = await waitForAgent(api, agent.agent);
      const { exit, lines } = agentResult(last);
      for (const line of lines) output.note(line);
      if (exit !== 0) throw new Finished(exit);
    });
}

/** The agent of `job`. Throws `not_found` for a job of another kind. */
export async function agentOf(api: ApiClient, job: number): Promise<AgentView> {
  const { agent, kind } = await api.call<{ agent: AgentView | null; kind: string }>(
    "GET",
    `/v1/jobs/${job}`,
  );
  if (agent !== null) return agent;
  throw new SubletError(
    "not_found",
    `job ${job} is no agent's but an ${kind}'s: \`sublet job logs ${job} -f\` follows it`,
  );
}

/** What to show of an agent. */
export interface Shown {
  readonly from: number;
  readonly raw: boolean;
  readonly follow: boolean;
  readonly stream?: string;
}

/** Print what an agent says until it is over; the byte up to which that was. */
export async function show(
  api: ApiClient,
  output: Output,
  agent: AgentView,
  { from, raw, follow, stream = agent.session_format === null ? STDOUT : "session" }: Shown,
): Promise<{ readonly next: number }> {
  const { job } = agent;
  if (job === null) return { next: from };
  const format = raw || stream !== "session" ? "raw" : "text";
  const decoder = new TextDecoder();
  let next = from;
  try {
    for await (const piece of followStream(api, { job, stream, from, format, wait: follow })) {
      if (piece.from > next && next > 0) {
        output.note(`(${piece.from - next} bytes are not kept)`);
      }
      next = piece.next;
      if (piece.bytes.length === 0) continue;
      const text = decoder.decode(piece.bytes, { stream: true });
      if (output.json) {
        output.line(JSON.stringify({ job, stream, from: piece.from, next: piece.next, text }));
      } else output.bytes(raw || !output.terminal ? piece.bytes : printable(text));
    }
  } catch (error) {
    // It ended without a word, such as one that did not start.
    if (!(error instanceof SubletError) || error.code !== "not_found") throw error;
    output.note(
      `job ${job} left no ${stream}: \`sublet job logs ${job} --list\` lists what it left`,
    );
  }
  return { next };
}

/** Text without what would move a terminal's cursor. */
function printable(text: string): Uint8Array {
  // deno-lint-ignore no-control-regex
  const plain = text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
  return new TextEncoder().encode(plain);
}
