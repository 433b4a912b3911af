/** @module Credentials from a program: `credential_process` of a profile of the AWS command line. */

import { messageOf, SubletError } from "../home/mod.ts";
import { type AwsKeys, parseKeys } from "./s3_keys.ts";

/** The words of `line`, with quotes as a shell has them and nothing else of it. */
export function splitWords(line: string): string[] {
  const words: string[] = [];
  const word = /\s*((?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])+)/gy;
  for (let match = word.exec(line); match !== null; match = word.exec(line)) {
    words.push(
      (match[1] ?? "").replaceAll(
        /"((?:\\.|[^"\\])*)"|'([^']*)'|\\(.)/g,
        (_, double, single, one) => double?.replaceAll(/\\(["\\])/g, "$1") ?? single ?? one,
      ),
    );
  }
  return words;
}

/** What the program of `command` prints, as keys. */
export async function runCredentialProcess(command: string): Promise<AwsKeys> {
  const [program, ...args] = splitWords(command);
  const what = "credential_process of the AWS profile";
  if (program === undefined) throw new SubletError("config", `${what}: it names no program`);
  let output: Deno.CommandOutput;
  try {
    output = await new Deno.Command(program, {
      args,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    })
      .output();
  } catch (error) {
    throw new SubletError("config", `${what}: ${program} cannot be run: ${messageOf(error)}`, {
      cause: error,
    });
  }
  if (!output.success) {
    const said = new TextDecoder().decode(output.stderr).trim().slice(-300);
    throw new SubletError("config", `${what}: ${program} exited with ${output.code}: ${said}`);
  }
  return parseKeys(what, new TextDecoder().decode(output.stdout));
}
