/** @module An agent from its first process to its report, in this process of the worker or continued from another. */

import type { Placed } from "../cas/mod.ts";
import { messageOf } from "../home/mod.ts";
import { type AgentContext, type Given, Hiding } from "./agent_context.ts";
import { agentExitOf, type Ended, reasonOf } from "./agent_exit.ts";
import { finish } from "./agent_finish.ts";
import { keptReport, patiently } from "./agent_patience.ts";
import type { AgentState } from "./agent_place.ts";
import type { AgentFinished, AgentStart } from "./agent_shapes.ts";
import { AgentTrack } from "./agent_track.ts";
import { startTurn } from "./agent_turn.ts";
import { tailOf } from "./run_logs.ts";
import { type Ending, firstEnding, stopAll } from "./run_watch.ts";
import type { Prompt } from "./runner.ts";

/** Why an agent takes no prompts. */
export const TAKES_NONE =
  "the agent's harness takes no prompts: it has no way to go on with a session";
const OVER = "the agent has ended";

/** What an agent came to here: its report, or it goes on or waits for a later process, or its lease was stale. */
export type RunEnd = { readonly report: AgentFinished } | "left" | "stale";

/** What an {@linkcode AgentRun} goes on from. */
export interface Begun {
  readonly spec: AgentStart;
  readonly given: Given;
  /** How the workspace was put there; null when another process did that. */
  readonly workspace: Placed | null;
}

/** An agent that runs. */
export class AgentRun {
  readonly #context: AgentContext;
  readonly #hiding: Hiding;
  readonly #begun: Begun;
  #state: AgentState;
  /** No prompt is taken any more. */
  #closed = false;
  /** Prompts that are being written down. */
  readonly #adding = new Set<Promise<void>>();
  #isShut = false;

  private constructor(context: AgentContext, begun: Begun, state: AgentState) {
    this.#context = context;
    this.#begun = begun;
    this.#hiding = new Hiding(context.site, begun.given);
    this.#state = state;
  }

  /** Start the first turn. Throws when it does not start. */
  static async start(context: AgentContext, begun: Begun): Promise<AgentRun> {
    const { site, job, place } = context;
    const startedAt = site.clock.now();
    const deadline = startedAt + job.timeout * 1000;
    const sessionId = job.session_id ?? job.resume?.session_id ?? null;
    const turn = { number: 1, args: begun.spec.args, sessionId, deadline };
    const process = await startTurn(context, begun.spec, begun.given, turn);
    const state = { process, turn: 1, startedAt, deadline, sessionId, ended: null, endedAt: null };
    await place.remember(state);
    return new AgentRun(context, begun, state);
  }

  /** Go on with what an earlier process of the worker left. */
  static takeOver(context: AgentContext, begun: Begun, state: AgentState): AgentRun {
    return new AgentRun(context, begun, state);
  }

  /** Let a prompt wait for the agent: null, or why it cannot. */
  async prompt(prompt: Prompt): Promise<string | null> {
    if (this.#closed) return OVER;
    if (this.#begun.spec.resume_args.length === 0) return TAKES_NONE;
    const adding = this.#context.messages.add(prompt);
    this.#adding.add(adding);
    try {
      await adding;
    } finally {
      this.#adding.delete(adding);
    }
    return null;
  }

  /**
   * See it to its end. `fresh`: this process started it. `tell`: the server does not know yet that it runs. Never
   * rejects: whoever runs a job that does would remove what it left.
   */
  async run(fresh: boolean, tell: boolean): Promise<RunEnd> {
    let track: AgentTrack | null = null;
    try {
      track = await this.#track();
      return await this.#run(track, fresh, tell);
    } catch (error) {
      await track?.leave();
      await this.#stop().catch((fault) => {
        this.#context.site.log.event("agent.not_stopped", { error: messageOf(fault) });
      });
      return await this.#giveUp(error);
    } finally {
      await this.#shut();
    }
  }

  async #track(): Promise<AgentTrack> {
    const { control } = this.#context;
    const track = await AgentTrack.begin(
      this.#context,
      this.#hiding,
      this.#state.sessionId,
      async (sessionId) => {
        control.identified?.(sessionId);
        await this.#remember({ sessionId });
      },
    );
    for (let turn = 1; turn <= this.#state.turn; turn++) track.output(turn);
    if (this.#state.sessionId !== null) control.identified?.(this.#state.sessionId);
    return track;
  }

  async #run(track: AgentTrack, fresh: boolean, tell: boolean): Promise<RunEnd> {
    const { control, site } = this.#context;
    const { turn: first, process } = this.#state;
    let ending = fresh ? null : await this.#endedMeanwhile(process);
    for (let told = !tell;; told = false, ending = null) {
      ending ??= await this.#watch(!told);
      if (ending.cause === "leave") {
        await track.leave();
        return "left";
      }
      if (ending.cause === "stale" && fresh && this.#state.turn === first) {
        await track.leave();
        await this.#stop();
        return "stale";
      }
      const next = ending.cause === "exit" ? await this.#nextTurn(track) : null;
      if (next === null) return await this.#end(ending, track);
      track.output(next);
      site.log.event("agent.turn", { lease: control.lease, turn: next });
    }
  }

  /** How the agent ended while no process of the worker watched it, or null when it runs. */
  async #endedMeanwhile(process: AgentState["process"]): Promise<Ending | null> {
    const { site, place } = this.#context;
    const { ended, turn, deadline } = this.#state;
    // An earlier process of the worker ended it, and did not come to its report.
    if (ended !== null) return { cause: ended };
    if (await site.processes.alive(process)) return null;
    const late = await place.exitCode(turn) === null && site.clock.now() >= deadline;
    return { cause: late ? "timeout" : "exit" };
  }

  async #watch(tell: boolean): Promise<Ending> {
    const { site, control, place, logs } = this.#context;
    const { process, turn, deadline, startedAt } = this.#state;
    const over = new AbortController();
    const started = tell
      ? control.started(
        {
          runtime: "subprocess",
          data: {
            pid: process.pid,
            pgid: process.pid,
            start_time: process.startTime,
            started_at: startedAt / 1000,
          },
        },
        this.#state.sessionId,
      )
      : Promise.resolve(true);
    const { stdout, stderr } = place.output(turn);
    try {
      return await firstEnding(site, {
        exited: site.processes.wait(process),
        started,
        stop: control.stop,
        ...(control.leave === undefined ? {} : { leave: control.leave }),
        ms: deadline - site.clock.now(),
        logs: [`${place.root}/${stdout}`, `${place.root}/${stderr}`],
        maxOutput: logs.stopBytes,
      }, over.signal);
    } finally {
      over.abort();
    }
  }

  /** Go on with the session when prompts wait for it and it can: the number of the turn that began, or null. */
  async #nextTurn(track: AgentTrack): Promise<number | null> {
    const { site, control, place, messages } = this.#context;
    const { spec, given } = this.#begun;
    const { turn, process, deadline } = this.#state;
    while (this.#adding.size > 0) await Promise.allSettled(this.#adding);
    if (messages.ids().unread.length === 0 || control.stop.aborted) {
      // At once: what comes from here on is told that it is too late.
      this.#closed = true;
      return null;
    }
    const exit = await site.processes.wait(process);
    if ((exit.code ?? await place.exitCode(turn)) !== 0 || site.clock.now() >= deadline) {
      return null;
    }
    const sessionId = await track.known();
    const needsId = spec.resume_args.some((arg) => arg.includes("{session_id}"));
    if (spec.resume_args.length === 0 || (needsId && sessionId === null)) return null;
    const taken = await messages.take();
    if (taken.length === 0) return null;
    const number = turn + 1;
    const prompt = taken.map(({ text }) => text).join("\n");
    try {
      const next = { number, args: spec.resume_args, prompt, sessionId, deadline };
      const process = await startTurn(this.#context, spec, given, next);
      await this.#remember({ process, turn: number });
      return number;
    } catch (error) {
      site.log.event("agent.no_next_turn", {
        lease: control.lease,
        error: this.#hiding.text(messageOf(error)),
      });
      await messages.giveBack(taken);
      return null;
    }
  }

  /** Stop what is left of it, and bring back what it did. */
  async #end(ending: Ending, track: AgentTrack): Promise<RunEnd> {
    const { control, place, site } = this.#context;
    const { turn } = this.#state;
    if (ending.cause === "leave") return "left";
    const cause = ending.cause === "stale" ? "stop" : ending.cause;
    this.#closed = true;
    if (this.#state.ended === null) {
      const endedAt = await place.endedAt(turn) ?? site.clock.now();
      this.#state = { ...this.#state, ended: cause, endedAt };
      try {
        await place.remember(this.#state);
      } catch (error) {
        // A full disk: another process would find it ended all the same.
        site.log.event("agent.not_remembered", { lease: control.lease, error: messageOf(error) });
      }
    }
    await this.#stop();
    await this.#shut();
    const ended = await this.#ended(cause, ending.message ?? null);
    await track.close();
    const end = { exit: agentExitOf(ended), turns: this.#state.turn };
    const done = await patiently(
      this.#context,
      () => finish(this.#context, end, track, this.#hiding, this.#begun.workspace),
    );
    if (done === "left") return "left";
    return "report" in done ? done : await this.#giveUp(done.failed);
  }

  async #ended(cause: Ended["cause"], message: string | null): Promise<Ended> {
    const { site, control, place } = this.#context;
    const { process, turn, startedAt, endedAt } = this.#state;
    const stopped = control.stop.aborted ? reasonOf(control.stop) : null;
    return {
      cause,
      message: message ?? stopped,
      exit: await site.processes.wait(process),
      code: await place.exitCode(turn),
      seconds: Math.max(0, (endedAt ?? site.clock.now()) - startedAt) / 1000,
      stderr: await tailOf(place.root, place.output(turn).stderr, 2_000),
    };
  }

  /** No command of the agent passes any more. */
  async #shut(): Promise<void> {
    if (this.#isShut) return;
    this.#isShut = true;
    await this.#begun.given.door[Symbol.asyncDispose]();
  }

  async #stop(): Promise<void> {
    const { site, tag, graceMs, place } = this.#context;
    await stopAll(site, this.#state.process, { tag, graceMs, place: place.root });
  }

  /** Its work stays where it is, and the report says so. */
  async #giveUp(error: unknown): Promise<RunEnd> {
    const { sessionId, turn, startedAt, endedAt } = this.#state;
    const now = this.#context.site.clock.now();
    const seconds = Math.max(0, (endedAt ?? now) - startedAt) / 1000;
    const known = { sessionId, seconds, turn };
    return { report: await keptReport(this.#context, known, this.#hiding.text(messageOf(error))) };
  }

  async #remember(change: Partial<AgentState>): Promise<void> {
    this.#state = { ...this.#state, ...change };
    await this.#context.place.remember(this.#state);
  }
}
