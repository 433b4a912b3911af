/** @module Parsers of option values. A bad value is a usage error that names the rule. */

import { InvalidArgumentError } from "@commander-js/extra-typings";
import { SubletError } from "../home/mod.ts";

/** A parser of whole numbers from `min` to `max`. */
export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^-?\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`give a whole number from ${min} to ${max}.`);
    }
    return value;
  };
}

/** A parser of seconds above zero, such as `600` or `2.5`. */
export function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value <= 0) {
    throw new InvalidArgumentError("give a number of seconds above 0.");
  }
  return value;
}

const UNITS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** A parser of durations such as `90s`, `12h` or `30d`, in milliseconds. */
export function duration(text: string): number {
  const [, count, unit] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  const factor = UNITS[unit ?? ""];
  if (count === undefined || factor === undefined || Number(count) === 0) {
    throw new InvalidArgumentError("give a duration such as 90s, 30m, 12h or 30d.");
  }
  return Number(count) * factor;
}

/** What is said to an agent: `words`, or standard input for `-`. Throws `usage` when that is nothing, or no text. */
export async function spoken(words: string): Promise<string> {
  const text = words === "-" ? textOf(await new Response(Deno.stdin.readable).bytes()) : words;
  if (text.trim() !== "") return text;
  throw new SubletError(
    "usage",
    words === "-"
      ? "standard input is empty: it is to hold what to do"
      : "say what to do: the text is empty",
  );
}

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new SubletError("usage", "standard input is no text in UTF-8: convert it first");
  }
}
