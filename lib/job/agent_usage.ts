/**
 * @module The tokens of an agent, from the session file of its harness, line by line. Formats as of Claude Code 2.1,
 * Codex 0.153 and pi 0.99: each reader passes over lines that it does not know.
 */

import type { AgentUsage } from "./agent_shapes.ts";

type Json = Readonly<Record<string, unknown>>;
type Counts = Omit<AgentUsage, "source">;

/** The format of a session file. */
export type TallyName = "claude" | "codex" | "pi";

const NONE: Counts = { input: 0, output: 0, cache_read: 0, cache_write: 0, total: 0, turns: 0 };

function table(value: unknown): Json | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? value as Json
    : null;
}

/** A count of the file's; anything else is none. */
function count(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? Math.trunc(value) : 0;
}

function plus(a: Counts, b: Omit<Counts, "turns">): Counts {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cache_read: a.cache_read + b.cache_read,
    cache_write: a.cache_write + b.cache_write,
    total: a.total + b.total,
    turns: a.turns + 1,
  };
}

/** Adds up a session file whose lines it is given in order. */
export interface Tally {
  add(line: string): void;
  /** What the lines came to; null while there was no response. */
  readonly counts: Counts | null;
}

abstract class Lines implements Tally {
  protected sum = NONE;

  get counts(): Counts | null {
    return this.sum.turns === 0 ? null : this.sum;
  }

  add(line: string): void {
    let record: Json | null;
    try {
      record = table(JSON.parse(line));
    } catch {
      // Such as the last line of an agent that was killed while it wrote it.
      return;
    }
    if (record !== null) this.record(record);
  }

  protected abstract record(record: Json): void;
}

/** One line for each block of a response, all with the response's usage: each `message.id` counts once. */
class ClaudeTally extends Lines {
  readonly #seen = new Set<unknown>();

  protected override record(record: Json): void {
    const message = table(record["message"]);
    const usage = table(message?.["usage"]);
    if (record["type"] !== "assistant" || message === null || usage === null) return;
    if (this.#seen.has(message["id"])) return;
    this.#seen.add(message["id"]);
    const found = {
      input: count(usage["input_tokens"]),
      output: count(usage["output_tokens"]),
      cache_read: count(usage["cache_read_input_tokens"]),
      cache_write: count(usage["cache_creation_input_tokens"]),
    };
    const total = found.input + found.output + found.cache_read + found.cache_write;
    this.sum = plus(this.sum, { ...found, total });
  }
}

/** A running total after each response, whose input counts what the cache served too. */
class CodexTally extends Lines {
  protected override record(record: Json): void {
    const payload = table(record["payload"]);
    if (record["type"] !== "event_msg" || payload?.["type"] !== "token_count") return;
    const usage = table(table(payload["info"])?.["total_token_usage"]);
    if (usage === null) return;
    const cached = count(usage["cached_input_tokens"]);
    this.sum = {
      input: Math.max(0, count(usage["input_tokens"]) - cached),
      output: count(usage["output_tokens"]),
      cache_read: cached,
      cache_write: count(usage["cache_write_input_tokens"]),
      total: count(usage["total_tokens"]),
      turns: this.sum.turns + 1,
    };
  }
}

/** The usage of every message of the assistant. */
class PiTally extends Lines {
  protected override record(record: Json): void {
    const message = table(record["message"]);
    const usage = table(message?.["usage"]);
    if (record["type"] !== "message" || message?.["role"] !== "assistant" || usage === null) return;
    this.sum = plus(this.sum, {
      input: count(usage["input"]),
      output: count(usage["output"]),
      cache_read: count(usage["cacheRead"]),
      cache_write: count(usage["cacheWrite"]),
      total: count(usage["totalTokens"]),
    });
  }
}

/** A tally of the format `name`, or null for one that is not known here. */
export function tallyOf(name: string | null): Tally | null {
  switch (name) {
    case "claude":
      return new ClaudeTally();
    case "codex":
      return new CodexTally();
    case "pi":
      return new PiTally();
    default:
      return null;
  }
}

/** What of a session's tokens `session` came after `before`. A file that counts less has begun anew: all of it is new. */
export function usageSince(
  session: AgentUsage | null,
  before: AgentUsage | null,
): AgentUsage | null {
  if (session === null || before === null) return session;
  const names = Object.keys(NONE) as (keyof Counts)[];
  if (names.some((name) => session[name] < before[name])) return session;
  const since = names.map((name) => [name, session[name] - before[name]]);
  return { ...session, ...Object.fromEntries(since) };
}

/** A longer line of a session is passed over, characters. */
const MAX_LINE = 32 * 1024 * 1024;

/** Cuts bytes into lines for a {@linkcode Tally}, and for `other` as well, however they come. */
export class TallyFeed {
  readonly #tally: Tally;
  readonly #other: Pick<Tally, "add"> | null;
  #decoder = new TextDecoder();
  #parts: string[] = [];
  #length = 0;

  constructor(tally: Tally, other: Pick<Tally, "add"> | null = null) {
    this.#tally = tally;
    this.#other = other;
  }

  get counts(): Counts | null {
    return this.#tally.counts;
  }

  add(bytes: Uint8Array): void {
    const [first = "", ...lines] = this.#decoder.decode(bytes, { stream: true }).split("\n");
    this.#hold(first);
    for (const line of lines) {
      if (this.#length <= MAX_LINE) this.#line(this.#parts.join(""));
      this.#parts = [];
      this.#length = 0;
      this.#hold(line);
    }
  }

  #line(line: string): void {
    this.#tally.add(line);
    this.#other?.add(line);
  }

  #hold(part: string): void {
    this.#length += part.length;
    if (this.#length <= MAX_LINE) this.#parts.push(part);
    else this.#parts = [];
  }
}
