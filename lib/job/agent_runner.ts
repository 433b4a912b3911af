/** @module Agents on a worker: each from its job to its report, and those that an earlier process of the worker left. */

import type { Vcs } from "../vcs/mod.ts";
import { isHostFault, messageOf, type ProcessRef } from "../home/mod.ts";
import { type AgentContext, type Given, Hiding } from "./agent_context.ts";
import { give, giveAgain, giveNothing } from "./agent_given.ts";
import { AgentMessages } from "./agent_messages.ts";
import { AgentPlace } from "./agent_place.ts";
import { prepare } from "./agent_prepare.ts";
import { AgentRun, type RunEnd, TAKES_NONE } from "./agent_run.ts";
import { type AgentJob, agentJob, type AgentStart } from "./agent_shapes.ts";
import { Clones } from "./run_clones.ts";
import { Inputs } from "./run_inputs.ts";
import { LeftJobs } from "./run_left.ts";
import { LOG_LIMITS, type LogLimits, storeLogs } from "./run_logs.ts";
import { stopAll } from "./run_watch.ts";
import type { JobControl, JobHandle, JobRunner, Outcome, Prompt, Salvage, Site } from "./runner.ts";

/** Settings of an {@linkcode AgentRunner}. */
export interface AgentRunnerOptions {
  /** Where checkouts come from. */
  readonly vcs: Readonly<Record<string, Vcs>>;
  /** Shared with other runners of the worker. Default: its own. */
  readonly inputs?: Inputs;
  /** Milliseconds between TERM and KILL. Default 10,000. */
  readonly graceMs?: number;
  readonly logs?: Partial<LogLimits>;
  /** Milliseconds between two looks at what an agent writes. Default 2,000. */
  readonly everyMs?: number;
}

/** A process that is not there, for stopping by tag alone: its pid is beyond every kernel's largest. */
const NO_PROCESS: ProcessRef = { pid: 2 ** 31 - 1, startTime: 0 };
const NOT_READY = "the agent does not run yet, or has ended";

/** An agent that is being prepared, or runs. */
interface Active {
  readonly messages: AgentMessages;
  readonly spec: AgentStart;
  run: AgentRun | null;
}

/** Runs agents on a site. One instance serves all of a worker's. */
export class AgentRunner implements JobRunner {
  readonly kind = "agent";
  readonly keepsStale = true;
  readonly #site: Site;
  readonly #clones: Clones;
  readonly #inputs: Inputs;
  readonly #options: { graceMs: number; everyMs: number; logs: LogLimits };
  readonly #left: LeftJobs;
  readonly #active = new Map<number, Active>();
  /** Leases whose directories are not to be removed. */
  readonly #kept = new Set<number>();

  constructor(site: Site, options: AgentRunnerOptions) {
    this.#site = site;
    this.#clones = new Clones(site, options.vcs);
    this.#inputs = options.inputs ?? new Inputs(site);
    this.#options = {
      graceMs: options.graceMs ?? 10_000,
      everyMs: options.everyMs ?? 2_000,
      logs: { ...LOG_LIMITS, ...options.logs },
    };
    this.#left = new LeftJobs(site.home, `${site.worker ?? "worker"}.agents`);
  }

  async prompt(lease: number, prompt: Prompt): Promise<string | null> {
    const active = this.#active.get(lease);
    if (active === undefined) return NOT_READY;
    if (active.run !== null) return await active.run.prompt(prompt);
    if (active.spec.resume_args.length === 0) return TAKES_NONE;
    await active.messages.add(prompt);
    return null;
  }

  async run(value: unknown, control: JobControl): Promise<Outcome> {
    const began = this.#site.clock.monotonic();
    const seconds = () => (this.#site.clock.monotonic() - began) / 1000;
    const parsed = agentJob.safeParse(value);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return refused(`the job is not valid: ${issue?.path.join(".")}: ${issue?.message}`);
    }
    const job = parsed.data;
    const { spec } = job;
    if (spec === null) return refused("the job does not say how to start the agent");
    if (job.runtime !== "subprocess") {
      return refused(`this worker has no runtime ${JSON.stringify(job.runtime)}`);
    }
    const tag = this.#site.ids.uuid();
    const place = new AgentPlace(this.#site.home, job, control.lease);
    if (place.exists) await this.#discard(job, place);
    this.#left.began({ lease: control.lease, tag, place: job.place });
    place.make(tag);
    await place.rememberJob(value);
    const context = this.#context(job, place, control, tag);
    const active: Active = { messages: context.messages, spec, run: null };
    this.#active.set(control.lease, active);
    try {
      let given: Given | null = null;
      try {
        const before = { ...context, control: beforeStart(control) };
        const { stop } = before.control;
        const { workspace } = await prepare(before);
        given = await give(before, stop);
        stop.throwIfAborted();
        active.run = await AgentRun.start(context, { spec, given, workspace });
      } catch (error) {
        await given?.door[Symbol.asyncDispose]();
        return await this.#notStarted(context, given, error, seconds());
      }
      return this.#outcome(await active.run.run(true, true));
    } finally {
      this.#active.delete(control.lease);
    }
  }

  async recover(
    value: unknown,
    held: { readonly handle: JobHandle | null; readonly startedAt: string | null },
    control: JobControl,
  ): Promise<Outcome> {
    const parsed = agentJob.safeParse(value);
    if (!parsed.success || parsed.data.spec === null) return refused("the job is not valid");
    const job = parsed.data;
    const place = new AgentPlace(this.#site.home, job, control.lease);
    const state = await place.state();
    const tag = await place.tag();
    if (state === null || tag === null) {
      if (tag !== null) {
        const owned = { tag, graceMs: this.#options.graceMs, place: place.root };
        await stopAll(this.#site, NO_PROCESS, owned);
      }
      return { lost: "its worker started again before the agent had started" };
    }
    const context = this.#context(job, place, control, tag);
    const active: Active = { messages: context.messages, spec: parsed.data.spec, run: null };
    this.#active.set(control.lease, active);
    try {
      let given: Given;
      try {
        given = await giveAgain(context, control.stop);
      } catch (error) {
        // A job that is lost is cleaned up: this one has work.
        this.#site.log.event("agent.not_taken_over", {
          lease: control.lease,
          error: messageOf(error),
        });
        return { left: true };
      }
      active.run = AgentRun.takeOver(context, { spec: active.spec, given, workspace: null }, state);
      this.#site.log.event("agent.taken_over", { lease: control.lease, pid: state.process.pid });
      return this.#outcome(await active.run.run(false, held.handle === null));
    } finally {
      this.#active.delete(control.lease);
    }
  }

  #context(job: AgentJob, place: AgentPlace, control: JobControl, tag: string): AgentContext {
    return {
      site: this.#site,
      clones: this.#clones,
      inputs: this.#inputs,
      control,
      job,
      place,
      messages: new AgentMessages(place.home, `${place.relative}/.run`),
      tag,
      keep: () => void this.#kept.add(control.lease),
      ...this.#options,
    };
  }

  #outcome(end: RunEnd): Outcome {
    if (end === "left") return { left: true };
    if (end === "stale") return { stale: true };
    return { report: { ...end.report } };
  }

  /** No process of the agent's own ran: what did (its harness was asked something) is stopped. */
  async #notStarted(
    context: AgentContext,
    given: Given | null,
    error: unknown,
    seconds: number,
  ): Promise<Outcome> {
    const { site, control, place, tag } = context;
    // What it was given it may have printed, a loader that dislikes a variable's value say.
    const hiding = new Hiding(site, given ?? { secrets: {}, lacks: false });
    await stopAll(site, NO_PROCESS, { tag, graceMs: 0, place: place.root });
    const { stop } = beforeStart(control);
    const stopped = stop.aborted;
    if (!stopped && isHostFault(error)) throw error;
    const reason = hiding.text(
      stopped ? `stopped before it started: ${messageOf(stop.reason)}` : messageOf(error),
    );
    let files: Record<string, string> = {};
    try {
      const isNoLog = (path: string) => place.isNoLog(path);
      const stored = await storeLogs(site.cas, place.root, isNoLog, context.logs, hiding.stream);
      files = { ...stored.files };
    } catch (fault) {
      site.log.event("agent.logs_not_stored", { lease: control.lease, error: messageOf(fault) });
    }
    const report = { kind: "agent_not_started", reason, seconds, files };
    // Ours: tells one that was stopped from one that could not start.
    return { report: stopped ? { ...report, stopped } : report };
  }

  async cleanup(value: unknown, lease: number): Promise<void> {
    const parsed = agentJob.safeParse(value);
    if (!parsed.success) return;
    const place = new AgentPlace(this.#site.home, parsed.data, lease);
    const marked = await place.isKept();
    // Without its mark the next process must find it, to try again.
    if (this.#kept.has(lease) && !marked) return;
    if (!marked) await this.#discard(parsed.data, place);
    await this.#left.over(lease);
  }

  async #discard(job: AgentJob, place: AgentPlace): Promise<void> {
    if (!place.exists) return;
    await (await this.#clones.of(job.artifact)).discard(place.worktree);
    await place.remove();
  }

  /** Leases that are not held any more: their agents are stopped, and what they did is reported all the same. */
  async *salvage(
    isHeld: (lease: number) => boolean,
    ending: AbortSignal,
  ): AsyncIterable<Salvage> {
    for (const { lease, tag, place: named } of await this.#left.all()) {
      if (isHeld(lease) || this.#active.has(lease)) continue;
      const place = new AgentPlace(this.#site.home, { place: named }, lease);
      const state = await place.state();
      const job = await place.job();
      const parsed = agentJob.safeParse(job);
      // What was kept was reported already.
      if (await place.isKept()) continue;
      if (state === null || !parsed.success || parsed.data.spec === null) continue;
      const lost = new AbortController();
      lost.abort(new Error("its lease was lost while its worker was away"));
      const control: JobControl = {
        lease,
        stop: lost.signal,
        ending,
        started: () => Promise.resolve(true),
      };
      const context = this.#context(parsed.data, place, control, tag);
      const given = await giveNothing(context);
      const begun = { spec: parsed.data.spec, given, workspace: null };
      const end = await AgentRun.takeOver(context, begun, state).run(false, false);
      if (typeof end === "object") yield { lease, job, report: { ...end.report } };
    }
  }

  async removeLeft(isHeld: (lease: number) => boolean): Promise<void> {
    for (const { lease, tag, place: named } of await this.#left.all()) {
      if (isHeld(lease) || this.#active.has(lease)) continue;
      const place = new AgentPlace(this.#site.home, { place: named }, lease);
      const owned = { tag, graceMs: this.#options.graceMs, place: place.root };
      await stopAll(this.#site, NO_PROCESS, owned);
      const parsed = agentJob.safeParse(await place.job());
      if (await place.isKept()) continue;
      if (parsed.success) await this.#discard(parsed.data, place);
      else await place.remove();
      await this.#left.over(lease);
      this.#site.log.event("agent.left_removed", { lease });
    }
  }
}

/** What an agent has of its worker until it starts: one that leaves gives it back, since there is nothing to leave yet. */
function beforeStart(control: JobControl): JobControl {
  const { lease, stop, leave } = control;
  return {
    lease,
    stop: leave === undefined ? stop : AbortSignal.any([stop, leave]),
    started: (handle, sessionId) => control.started(handle, sessionId),
    secrets: async (signal) => await control.secrets?.(signal) ?? new Map<string, string>(),
  };
}

/** No worker of this version can start it, today or tomorrow. */
function refused(reason: string): Outcome {
  return { report: { kind: "agent_not_started", reason, seconds: 0, files: {} } };
}
