/** @module What an agent said, for people: a file beside its logs. */

import { writeBeneath } from "../home/mod.ts";
import type { AgentPlace } from "./agent_place.ts";
import { tailOf } from "./run_logs.ts";
import { sessionLines } from "./session_text.ts";

const NAME = "transcript.txt";
/** Bytes of it: what was said last. */
const MAX_BYTES = 4 * 1024 * 1024;

const encoder = new TextEncoder();

/** Collects what the lines of a session's file say, given in order: the newest {@linkcode MAX_BYTES}. */
export class SessionTranscript {
  readonly #format: string;
  #said: string[] = [];
  #size = 0;
  #from = 0;

  constructor(format: string) {
    this.#format = format;
  }

  add(line: string): void {
    for (const said of sessionLines(this.#format, line)) {
      this.#said.push(said);
      this.#size += sizeOf(said);
    }
    while (this.#size > MAX_BYTES && this.#from < this.#said.length) {
      this.#size -= sizeOf(this.#said[this.#from++] ?? "");
    }
    // Dropped at times, since each time costs as much as there is.
    if (this.#from < this.#said.length / 2) return;
    this.#said = this.#said.slice(this.#from);
    this.#from = 0;
  }

  get text(): string {
    return this.#said.slice(this.#from).map((line) => `${line}\n`).join("");
  }
}

function sizeOf(line: string): number {
  return encoder.encode(line).length + 1;
}

/** Write the transcript: `said`, or what the turns up to `turns` printed where no session tells anything. */
export async function writeTranscript(
  place: AgentPlace,
  turns: number,
  said: string | null,
): Promise<void> {
  const text = said || await printed(place, turns);
  await writeBeneath(place.home, `${place.relative}/${NAME}`, encoder.encode(text), {
    what: "the transcript",
  });
}

/** The end of what the turns printed, each after the one before. */
async function printed(place: AgentPlace, turns: number): Promise<string> {
  const parts: string[] = [];
  for (let turn = turns, left = MAX_BYTES; turn >= 1 && left > 0; turn--) {
    const text = await tailOf(place.root, place.output(turn).stdout, left);
    left -= encoder.encode(text).length;
    parts.unshift(text === "" || text.endsWith("\n") ? text : `${text}\n`);
  }
  return parts.join("");
}
