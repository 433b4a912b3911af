/** @module The directory of one lease of an agent: its checkout, its logs, and what a later process needs of it. */

import { join } from "node:path";
import * as z from "zod";
import { LeasePlace, PRIVATE, WORKTREE } from "./lease_place.ts";

const STATE = "state.json";
const JOB = "job.json";
const KEEP = "keep";
const MAX_STATE_BYTES = 64 * 1024;
const MAX_JOB_BYTES = 64 * 1024 * 1024;

/** What is known of an agent that was started. Times are milliseconds since 1970. */
const state = z.object({
  /** The process of the turn that was begun last. */
  process: z.object({ pid: z.int().positive(), startTime: z.number().nullable() }),
  /** Turns that were begun. */
  turn: z.int().positive(),
  startedAt: z.number(),
  deadline: z.number(),
  sessionId: z.string().nullable(),
  /** Why we ended it, when we did: it is not to go on then. */
  ended: z.enum(["timeout", "stop", "output", "exit"]).nullable(),
  /** When that was. */
  endedAt: z.number().nullable(),
});
export type AgentState = z.output<typeof state>;

/** A {@linkcode LeasePlace} with one checkout, `worktree`. */
export class AgentPlace extends LeasePlace {
  readonly worktree: string = join(this.root, WORKTREE);

  /** Absolute path of `name` among what is the worker's alone. */
  own(name: string): string {
    return join(this.root, PRIVATE, name);
  }

  /** The names of the files that turn `turn` prints to, beneath the root. */
  output(turn: number): { readonly stdout: string; readonly stderr: string } {
    const name = turn === 1 ? "agent_session" : `agent_session-${turn}`;
    return { stdout: `${name}.stdout`, stderr: `${name}.stderr` };
  }

  /** The name of the file that holds the exit code of turn `turn` once it has ended. */
  exit(turn: number): string {
    return `exit-${turn}`;
  }

  /** The exit code of turn `turn`, or null when nobody knows it. */
  async exitCode(turn: number): Promise<number | null> {
    const bytes = await this.read(this.exit(turn), 20);
    const text = bytes === null ? "" : new TextDecoder().decode(bytes).trim();
    return /^\d{1,3}$/.test(text) ? Number(text) : null;
  }

  /** When turn `turn` ended, milliseconds since 1970, or null when nobody wrote that down. */
  async endedAt(turn: number): Promise<number | null> {
    const info = await Deno.lstat(this.own(this.exit(turn))).catch(() => null);
    return info?.mtime?.getTime() ?? null;
  }

  isNoLog(path: string): boolean {
    return path === PRIVATE || path === WORKTREE;
  }

  /** What is known of the agent; null when it was never started, as far as anybody knows. */
  async state(): Promise<AgentState | null> {
    const parsed = state.safeParse(await this.#json(STATE, MAX_STATE_BYTES));
    return parsed.success ? parsed.data : null;
  }

  /** Remember `state`, also across a power cut. */
  async remember(state: AgentState): Promise<void> {
    await this.write(STATE, JSON.stringify(state), { sync: true });
  }

  /** The job's JSON, as {@linkcode AgentPlace.rememberJob} got it. */
  async job(): Promise<unknown> {
    return await this.#json(JOB, MAX_JOB_BYTES);
  }

  async rememberJob(job: unknown): Promise<void> {
    await this.write(JOB, JSON.stringify(job));
  }

  /** What is here is not removed: work in it could not be saved. */
  async keep(reason: string): Promise<void> {
    await this.write(KEEP, reason);
  }

  async isKept(): Promise<boolean> {
    return await this.read(KEEP, MAX_STATE_BYTES) !== null;
  }

  async #json(name: string, max: number): Promise<unknown> {
    const bytes = await this.read(name, max);
    if (bytes === null) return null;
    try {
      return JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      // A write is whole or not there: somebody else wrote this.
      return null;
    }
  }
}
