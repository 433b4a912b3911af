/**
 * @module Prompts that wait for an agent, as files: whoever renames one takes it, the worker before the next turn or a
 * program of the agent's during one. A flag beside them is not empty while any may wait, for hooks that look often.
 */

import { join } from "node:path";
import { mkdirBeneath, openBeneath, writeBeneath } from "../home/mod.ts";
import type { Prompt } from "./runner.ts";

const WHAT = "messages of the agent";
const FLAG = "messages";
const DIR = "messages.d";
const READ = `${DIR}/read`;
/** Number in order, and the prompt's id. */
const NAME = /^(\d{6})-(-?\d{1,16})\.msg$/;
const MAX_BYTES = 16 * 1024 * 1024;

/** The messages of one agent, in the directory `relative` beneath `home`. */
export class AgentMessages {
  readonly #home: string;
  readonly #relative: string;

  constructor(home: string, relative: string) {
    this.#home = home;
    this.#relative = relative;
    mkdirBeneath(home, `${relative}/${READ}`, { what: WHAT });
  }

  /** The flag: what `SUBLET_MESSAGES` names. Absolute. */
  get flag(): string {
    return join(this.#home, this.#relative, FLAG);
  }

  /** Let `prompt` wait. One that was there already, read or not, is not added again. */
  async add(prompt: Prompt): Promise<void> {
    const all = [...this.#names(DIR), ...this.#names(READ)];
    if (all.some(({ id }) => id === prompt.id)) return;
    const next = Math.max(0, ...all.map(({ number }) => number)) + 1;
    const name = `${String(next).padStart(6, "0")}-${prompt.id}.msg`;
    // The first line is for hooks that answer JSON: shells cannot escape a text.
    const text = `${JSON.stringify(prompt.text).slice(1, -1)}\n${prompt.text}`;
    await this.#write(`${DIR}/${name}`, text);
    await this.#write(FLAG, "1\n");
  }

  /** Take all that wait, oldest first. */
  async take(): Promise<Prompt[]> {
    await this.#write(FLAG, "");
    const taken: Prompt[] = [];
    for (const { name, id } of this.#names(DIR)) {
      const to = join(this.#home, this.#relative, READ, name);
      try {
        await Deno.rename(join(this.#home, this.#relative, DIR, name), to);
      } catch (error) {
        // The agent took it a moment ago.
        if (error instanceof Deno.errors.NotFound) continue;
        throw error;
      }
      taken.push({ id, text: await this.#text(`${READ}/${name}`) });
    }
    return taken;
  }

  /** Give back what was taken for a turn that did not begin. */
  async giveBack(prompts: readonly Prompt[]): Promise<void> {
    for (const { id } of prompts) {
      const name = this.#names(READ).find((each) => each.id === id)?.name;
      if (name === undefined) continue;
      const from = join(this.#home, this.#relative, READ, name);
      await Deno.rename(from, join(this.#home, this.#relative, DIR, name));
    }
  }

  /** The ids of those that were read, and of those that wait. */
  ids(): { readonly read: number[]; readonly unread: number[] } {
    const idsOf = (dir: string) => this.#names(dir).map(({ id }) => id);
    return { read: idsOf(READ), unread: idsOf(DIR) };
  }

  /** A script that prints what waits, and takes it: `[--format lines|claude-hook]`. Absolute path. */
  async script(): Promise<string> {
    await this.#write("take-messages", scriptOf(join(this.#home, this.#relative)), 0o700);
    return join(this.#home, this.#relative, "take-messages");
  }

  #names(dir: string): { name: string; number: number; id: number }[] {
    const found: { name: string; number: number; id: number }[] = [];
    for (const { name, isFile } of Deno.readDirSync(join(this.#home, this.#relative, dir))) {
      const [, number, id] = NAME.exec(name) ?? [];
      if (!isFile || number === undefined || id === undefined) continue;
      found.push({ name, number: Number(number), id: Number(id) });
    }
    return found.sort((a, b) => a.number - b.number);
  }

  async #text(path: string): Promise<string> {
    await using file = await openBeneath(this.#home, `${this.#relative}/${path}`, { what: WHAT });
    const text = new TextDecoder().decode(await file.bytes(MAX_BYTES));
    return text.slice(text.indexOf("\n") + 1);
  }

  async #write(path: string, text: string, mode = 0o600): Promise<void> {
    const bytes = new TextEncoder().encode(text);
    await writeBeneath(this.#home, `${this.#relative}/${path}`, bytes, { what: WHAT, mode });
  }
}

/** `text` as one word of a shell. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function scriptOf(directory: string): string {
  return `#!/bin/sh
# Prints the messages that wait for this agent, and takes them.
form=lines
while [ $# -gt 0 ]; do
  case $1 in
    --format) form=\${2-lines}; shift ;;
    --format=*) form=\${1#*=} ;;
  esac
  [ $# -gt 0 ] && shift
done
dir=${shellWord(join(directory, DIR))}
: >${shellWord(join(directory, FLAG))}
out=
for file in "$dir"/*.msg; do
  [ -e "$file" ] || continue
  mv "$file" "$dir/read/" 2>/dev/null || continue
  read="$dir/read/\${file##*/}"
  if [ "$form" = claude-hook ]; then
    out="$out\${out:+\\\\n}$(head -n 1 "$read")"
  else
    tail -n +2 "$read"
    echo
  fi
done
[ -z "$out" ] || printf '{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"%s"}}\\n' "$out"
`;
}
