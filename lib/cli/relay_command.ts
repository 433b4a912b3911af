/**
 * @module `sublet relay SOCKET -- ARGS…`: what the `sublet` of an agent runs. It hands a command to the agent's worker, and
 * prints what it came to. Not for people: help does not list it.
 */

import type { Command } from "@commander-js/extra-typings";
import { isError, messageOf, SubletError } from "../home/mod.ts";
import { neverLeft, openHttpClient } from "../net/mod.ts";
import { Finished } from "./finished.ts";
import { Output } from "./output.ts";

/** How long the worker and the server may take together, milliseconds. */
const ANSWER_MS = 155_000;

interface Result {
  readonly stdout: string;
  readonly stderr: string;
  readonly exit_code: number;
}

/** Add the command. */
export function addRelay(root: Command): void {
  root.command("relay", { hidden: true })
    .argument("<socket>")
    .argument("[args...]")
    .action(async (socket, argv) => {
      const stdin = argv.includes("-") && !Deno.stdin.isTerminal()
        ? await new Response(Deno.stdin.readable).text()
        : null;
      const result = await ask(socket, { argv, stdin });
      const encoder = new TextEncoder();
      const output = new Output();
      output.bytes(encoder.encode(result.stdout));
      if (result.stderr !== "") output.note(result.stderr.replace(/\n$/, ""));
      if (result.exit_code !== 0) throw new Finished(result.exit_code);
    });
}

async function ask(socket: string, body: unknown): Promise<Result> {
  using http = openHttpClient({ server: `unix:${socket}` });
  try {
    const response = await http.request({
      method: "POST",
      path: "/v1/cli",
      headers: { "content-type": "application/json" },
      body: new TextEncoder().encode(JSON.stringify(body)),
      timeoutMs: ANSWER_MS,
    });
    const text = new TextDecoder().decode(await response.bytes());
    const found = JSON.parse(text);
    if (response.status === 200) return found as Result;
    throw new SubletError("failed", String(found.message ?? text));
  } catch (error) {
    if (!isError(error, "unreachable")) throw error;
    throw new SubletError(
      "unreachable",
      neverLeft(error)
        ? "the command did not run: this agent's lease is over, or its worker is gone"
        : `the answer was lost, so the command may have run: look before you run it again. ${
          messageOf(error)
        }`,
    );
  }
}
