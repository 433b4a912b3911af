/** @module `sublet status`. */

import type { Command } from "@commander-js/extra-typings";
import { ApiClient } from "./api_client.ts";
import {
  limitSource,
  limitText,
  type LiveKeyView,
  type RefusedLimitView,
} from "./limits_command.ts";
import { age, Output } from "./output.ts";

interface RunningAgent {
  readonly job: number | null;
  readonly campaign: string;
  readonly role: string;
  readonly harness: string;
  readonly worker: string | null;
  readonly started_at: string | null;
  readonly active_at: string | null;
  readonly tokens: number | null;
  readonly said: string | null;
}

interface StatusView {
  readonly server: {
    readonly version: string;
    readonly pid: number;
    readonly uptime_seconds: number;
    readonly urls: readonly string[];
  };
  readonly workers: { readonly total: number; readonly reachable: number };
  readonly jobs: {
    readonly queued: number;
    readonly running: number;
    readonly waits: string | null;
  };
  readonly agents: readonly RunningAgent[];
  readonly limits: readonly LiveKeyView[];
  readonly refused_limits: readonly RefusedLimitView[];
}

/** Characters of what an agent said that are shown. */
const MAX_SAID = 100;

/** Add the command. */
export function addStatus(root: Command): void {
  root.command("status")
    .description("What the server does, and why anything waits.")
    .option("--watch", "show it again every 2 seconds until Ctrl-C")
    .option("--json", "print one JSON document")
    .action(async (options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      while (true) {
        const status = await api.call<StatusView>("GET", "/v1/status");
        if (options.watch === true && output.terminal) {
          output.bytes(new TextEncoder().encode("\x1b[2J\x1b[H"));
        }
        show(output, status);
        if (options.watch !== true) return;
        await new Promise((resolve) => setTimeout(resolve, 2000));
      }
    });
}

function show(output: Output, status: StatusView): void {
  if (output.json) return output.document(status);
  const { server, workers, jobs } = status;
  output.table([], [
    [
      "server",
      `pid ${server.pid}, sublet ${server.version}, up ${age(server.uptime_seconds * 1000)}`,
    ],
    ...server.urls.map((url) => ["listening", url]),
    ["workers", `${workers.reachable} of ${workers.total} reachable`],
    ["jobs", `${jobs.running} running, ${jobs.queued} queued`],
    ...(jobs.waits === null ? [] : [["waits", jobs.waits]]),
    ...status.agents.map((each) => ["agent", agentText(each)]),
    ...status.limits.map((each) => ["limit", `${limitText(each)} (${limitSource(each)})`]),
    ...status.refused_limits.map((each) => [
      "limit",
      `not in force: ${limitText(each)}: ${each.why}`,
    ]),
  ]);
}

/** One line for an agent that runs: since when, when it was last heard, its tokens, and what it said. */
function agentText(agent: RunningAgent): string {
  const { job, campaign, role, harness, worker, started_at: start, active_at: active } = agent;
  const ago = (at: string | null) => at === null ? "?" : age(Date.now() - Date.parse(at));
  const parts = [
    `job ${job} ${campaign} ${role} (${harness}) on ${worker ?? "?"}`,
    `for ${ago(start)}`,
    `active ${ago(active)} ago`,
    ...(agent.tokens === null ? [] : [`${agent.tokens} tokens`]),
  ];
  return `${parts.join(", ")}${agent.said === null ? "" : `: ${agent.said.slice(0, MAX_SAID)}`}`;
}
