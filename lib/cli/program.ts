/** @module The command table, and the one place where an error becomes an exit code. */

import { Command, CommanderError } from "@commander-js/extra-typings";
import { EXIT, SubletError } from "../home/mod.ts";
import { addAgent } from "./agent_command.ts";
import { addAttach } from "./attach_command.ts";
import { addCas } from "./cas_command.ts";
import { addEval } from "./eval_command.ts";
import { Finished } from "./finished.ts";
import { addInit } from "./init_command.ts";
import { addJob } from "./job_command.ts";
import { addLimits } from "./limits_command.ts";
import { describe, Output } from "./output.ts";
import { addPool } from "./pool_command.ts";
import { addPrompt } from "./prompt_command.ts";
import { addRelay } from "./relay_command.ts";
import { addSecret } from "./secret_command.ts";
import { addServe } from "./serve_command.ts";
import { addStatus } from "./status_command.ts";
import { addStop } from "./stop_command.ts";
import { addToken } from "./token_command.ts";
import { VERSION } from "./version.ts";
import { addVersion } from "./version_command.ts";
import { addWorker } from "./worker_command.ts";

/** The whole command line. */
export function program(): Command {
  const root = new Command("sublet")
    .description(
      "Lends machines to jobs: evaluations and coding-agent sessions, over many commits on many machines.",
    )
    .addHelpText(
      "after",
      `
Examples:
  sublet serve --detach                    start the server of this home
  sublet init .                            register this git repository as a campaign
  sublet eval HEAD~3 HEAD~2 HEAD~1 HEAD    measure four commits
  sublet worker --server URL --pool gpu    lend this machine`,
    )
    .configureOutput({ writeOut: (text) => new Output().bytes(new TextEncoder().encode(text)) })
    .version(VERSION, "-V, --version", "print the version")
    .showSuggestionAfterError(true)
    .showHelpAfterError("(sublet --help lists the commands)")
    .exitOverride();
  for (
    const add of [
      addInit,
      addServe,
      addStop,
      addWorker,
      addEval,
      addAgent,
      addAttach,
      addPrompt,
      addJob,
      addStatus,
      addPool,
      addLimits,
      addToken,
      addSecret,
      addRelay,
      addCas,
      addVersion,
    ]
  ) {
    add(root);
  }
  return root;
}

function exitOf(error: unknown): number {
  if (error instanceof Finished) return error.exit;
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  new Output().note(`sublet: ${describe(error)}`);
  if (error instanceof SubletError) return error.exit;
  if (isOfSystem(error)) {
    new Output().note("sublet: check its path, its permissions and the free space");
    return EXIT.failed;
  }
  if (Deno.env.get("SUBLET_DEBUG") === "1" && error instanceof Error) {
    new Output().note(error.stack ?? "");
  } else new Output().note("sublet: this is a fault of sublet itself; SUBLET_DEBUG=1 shows where");
  return EXIT.failed;
}

/** Whether the operating system refused: no space, a read-only file system, no permission. */
function isOfSystem(error: unknown): boolean {
  return error instanceof Error && "code" in error && typeof error.code === "string" &&
    /^E[A-Z]+$/.test(error.code);
}

/** Run the command that `argv` names; its exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  try {
    const root = program();
    if (argv.length === 0) {
      root.outputHelp({ error: true });
      return EXIT.usage;
    }
    await root.parseAsync([...argv], { from: "user" });
    return EXIT.ok;
  } catch (error) {
    return exitOf(error);
  }
}
