/**
 * @module Whether Deno would ask the person at the terminal for what the Web Worker may not do. That must not be: a
 * question stops the thread that renews leases until somebody answers it, and a yes takes its limits away.
 */

import { SubletError } from "../../home/mod.ts";
import { kernelFile } from "./kernel_file.ts";

/** Throw `usage` unless every permission that is not there is refused without a question. */
export async function refusePrompts(): Promise<void> {
  // Nobody to ask; and the compiled file is made to ask nothing.
  if (Deno.build.standalone || !Deno.stdin.isTerminal() || !Deno.stderr.isTerminal()) return;
  if (Deno.env.get("DENO_NO_PROMPT") !== undefined || await saysNoPrompt()) return;
  throw new SubletError(
    "usage",
    "a worker must not ask for permissions on a terminal: run it with `deno run --no-prompt`, or set DENO_NO_PROMPT=1",
  );
}

/** Whether this process was started with the flag. */
async function saysNoPrompt(): Promise<boolean> {
  if (Deno.build.os !== "linux") {
    const { stdout } = await new Deno.Command("ps", {
      args: ["-o", "args=", "-p", String(Deno.pid)],
      stderr: "null",
    }).output();
    return new TextDecoder().decode(stdout).split(/\s+/).includes("--no-prompt");
  }
  return (await kernelFile(`/proc/${Deno.pid}/cmdline`) ?? "").split("\0").includes("--no-prompt");
}
