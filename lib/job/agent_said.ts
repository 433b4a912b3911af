/** @module What running agents say, from the end of what came of their sessions. */

import type { Db, Row } from "../store/mod.ts";
import { sessionLines } from "./session_text.ts";
import { SESSION_STREAM } from "./stream_shapes.ts";
import type { Streams } from "./streams.ts";

/** What an agent prints in its first turn. */
const STDOUT = "agent_session.stdout";
/** How much of a session is read for what it said last. */
const SAID_BYTES = 128 * 1024;
/** Of how many agents that is remembered, and how many lines. */
const REMEMBERED = 1_000;
const REMEMBERED_LINES = 10;

/** What agents said last, remembered for whoever looks again before they say more. */
export class AgentSaid {
  readonly #db: Db;
  readonly #streams: Streams;
  readonly #known = new Map<number, { readonly size: number; readonly said: readonly string[] }>();

  constructor(db: Db, streams: Streams) {
    this.#db = db;
    this.#streams = streams;
  }

  /** The format of the session of a job's agent; null: it has none that is known, or is no agent's. */
  async formatOf(job: number): Promise<string | null> {
    const row = await this.#db.read((tx) =>
      tx.get<Row & { format: string | null }>("SELECT format FROM agents WHERE job = ?", [job])
    );
    return row?.format ?? null;
  }

  /** The last lines that a running agent said, at most `lines`. */
  async last(job: number, lines: number): Promise<string[]> {
    const format = await this.formatOf(job);
    const stream = format === null ? STDOUT : SESSION_STREAM;
    const size = await this.#streams.sizeOf(job, stream);
    const before = this.#known.get(job);
    if (before?.size === size) return before.said.slice(-lines);
    const said = await this.#readSaid(job, stream, format);
    if (this.#known.size >= REMEMBERED) this.#known.clear();
    this.#known.set(job, { size, said: said.slice(-REMEMBERED_LINES) });
    return said.slice(-lines);
  }

  async #readSaid(job: number, stream: string, format: string | null): Promise<string[]> {
    const bytes = await this.#streams.tail(job, stream, SAID_BYTES);
    const text = new TextDecoder().decode(bytes).split("\n");
    // The first one may be the rest of a line.
    const whole = bytes.length < SAID_BYTES ? text : text.slice(1);
    return whole.filter((line) => line !== "").flatMap((line) => sessionLines(format, line));
  }
}
