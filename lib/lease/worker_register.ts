/** @module A worker makes itself known, until the server answers: only a typed refusal ends that. */

import { isError, messageOf, SubletError } from "../home/mod.ts";
import { type Cid, cidOf } from "../cas/mod.ts";
import { SESSION_RUNNER } from "../job/mod.ts";
import type { Registration, WorkerInfo } from "./client.ts";
import { UnexplainedStatus } from "./http_client_refusal.ts";
import { workerPart } from "./spool.ts";
import type { WorkerOptions } from "./worker_options.ts";
import { Superseded } from "./superseded.ts";
import { endsWorker, type WorkerCore } from "./worker_core.ts";
import { Backoff, type Mark, markNow, since, within } from "./worker_time.ts";

const REGISTER_SECONDS = 30;
const PROBE_MS = 60_000;
/** After so long somebody who waits for the worker to connect is told what it waits for. */
const PROBE_SLOW_MS = 5_000;
/** How often a worker whose name is taken asks again. */
const NAME_SECONDS = 5;
/** By how much the seconds that are left may be off: they are told as whole ones. */
const NAME_SLACK_SECONDS = 2;
/** How often a worker that is not taken in says the same reason. */
const NOT_REGISTERED_EVERY_MS = 60_000;
/** What of a registration a server rejects for good, beside what ends a worker at any call. */
const REJECTED = ["invalid_body", "invalid_request", "unsafe_path"] as const;

/** What jobs may ask for by name: evaluators, and that sessions of other machines can be gone on with. */
function runnersOf({ evaluators = ["process"], runners }: WorkerOptions): string[] {
  const hasAgents = runners.some(({ kind }) => kind === "agent");
  return hasAgents ? [...evaluators, SESSION_RUNNER] : [...evaluators];
}

/** Registers a worker, and again when the server forgot it. */
export class Registrar {
  /** The store's refusal of the probe. */
  #casRefusal: SubletError | null = null;

  /** What the server last said of another process that has the name, and when it was asked. */
  #taken: { readonly seconds: number; readonly at: Mark } | null = null;

  /** Why the last try failed, and when that was said. */
  #said: { readonly error: string; readonly at: Mark } | null = null;

  /** When the server last took this worker in. */
  #joined: Mark;
  readonly #again: Backoff;
  /** When the last registration was sent. */
  #asked: Mark;

  constructor(private readonly core: WorkerCore) {
    this.#asked = this.#joined = markNow(core.clock);
    this.#again = new Backoff(core.ids);
  }

  /** Register. Null: the worker ended before the server answered. */
  async register(): Promise<Registration | null> {
    const { core } = this;
    const backoff = new Backoff(core.ids);
    while (!core.over.signal.aborted && core.refusal === null) {
      try {
        const registration = await this.#once();
        if (registration instanceof Superseded) {
          await this.#waitForName(registration);
          continue;
        }
        workerPart(registration.worker);
        const first = core.registration === null;
        core.join(registration, this.#asked);
        this.#joined = markNow(core.clock);
        core.log.event("worker.registered", {
          worker: registration.worker,
          pool: core.options.pool,
          incarnation: core.options.incarnation.id,
          held: registration.held.map((grant) => grant.lease),
        });
        await this.#remember(first, registration);
        return registration;
      } catch (error) {
        if (endsWorker(error)) break;
        if (isError(error, ...REJECTED) && !(error instanceof UnexplainedStatus)) {
          core.refuse(error);
          break;
        }
        this.#notRegistered(messageOf(error));
        await core.clock.sleep(backoff.next(), core.over.signal);
      }
    }
    return null;
  }

  /** Say why, and not at each try: a server may be away for days. */
  #notRegistered(error: string): void {
    const { clock, log } = this.core;
    const last = this.#said;
    if (last?.error === error && since(clock, last.at) < NOT_REGISTERED_EVERY_MS) return;
    this.#said = { error, at: markNow(clock) };
    log.event("worker.not_registered", { error });
  }

  /** The server forgot this worker whenever the flag is set: register again, and give `join` what it says is held. */
  async again(join: (registration: Registration) => void): Promise<void> {
    const { core } = this;
    await core.mustRegister.wait(core.clock, null, core.over.signal);
    if (core.over.signal.aborted || core.registered.isOpen) return;
    // A server that forgets this worker at once must not be asked in a tight loop.
    if (since(core.clock, this.#joined) > core.timing.renew * 1000) this.#again.reset();
    await core.clock.sleep(this.#again.next(), core.over.signal);
    const registration = await this.register();
    if (registration !== null) join(registration);
  }

  /** Another process has the name, which may have ended a moment ago: wait, and refuse only one that lives. */
  async #waitForName(taken: Superseded): Promise<void> {
    const { core } = this;
    const seconds = taken.seconds ?? 0;
    core.log.event("worker.name_taken", { seconds, error: taken.message });
    this.#taken = { seconds, at: this.#asked };
    await core.clock.sleep(Math.min(Math.max(seconds, 1), NAME_SECONDS) * 1000, core.over.signal);
  }

  /** Whether a process that has the name may be a dead one: the server hears nothing of it. */
  #mayBeDead(taken: Superseded): boolean {
    if (this.core.registration !== null || taken.seconds === null) return false;
    if (this.#taken === null) return true;
    const left = this.#taken.seconds - since(this.core.clock, this.#taken.at) / 1000;
    return taken.seconds <= left + NAME_SLACK_SECONDS;
  }

  /** Register once. `Superseded`: another process has the name, and it may be worth to wait. */
  async #once(): Promise<Registration | Superseded> {
    const { core } = this;
    const { options } = core;
    const info = {
      version: options.version,
      pool: options.pool,
      runners: runnersOf(options),
      labels: options.labels ?? [],
      sample: await core.sample(),
      casProbe: await this.#putProbe(),
      incarnation: options.incarnation.id,
      once: options.once === true,
    };
    this.#asked = markNow(core.clock);
    return await core.call("register", REGISTER_SECONDS, (signal) => this.#succeed(info, signal));
  }

  /** Register as the successor of whichever dead process the server still knows. */
  async #succeed(
    info: Omit<WorkerInfo, "succeeds">,
    signal: AbortSignal,
  ): Promise<Registration | Superseded> {
    const { core } = this;
    // Once it is known itself, it succeeds nobody.
    const dead = core.registration === null ? core.options.incarnation.succeeds : [];
    const left = [...dead];
    while (true) {
      try {
        const succeeds = left.shift() ?? null;
        return await core.client.register({ ...info, succeeds }, signal);
      } catch (error) {
        if (isError(error, "other_cas") && this.#casRefusal !== null) throw this.#casRefusal;
        if (!isError(error, "superseded")) throw error;
        if (left.length > 0) continue;
        if (error instanceof Superseded && this.#mayBeDead(error)) return error;
        throw error;
      }
    }
  }

  /**
   * The address of a blob that nobody else has, put in this worker's store: the same one for the life of the process.
   * A store that refuses this worker's credential is no reason to keep silent: the server says what that means.
   */
  async #putProbe(): Promise<Cid> {
    const { core } = this;
    const text = `a worker's probe of its store: ${core.options.incarnation.id}\n`;
    const bytes = new TextEncoder().encode(text);
    const put = () => core.options.cas.put(bytes);
    const answered = core.clock.after(PROBE_SLOW_MS, () =>
      core.log.event("worker.store_slow", {
        seconds: PROBE_SLOW_MS / 1000,
        error: "the store of [plugins.cas] does not answer yet: check its url, and that it runs",
      }));
    try {
      const cid = await within(core.clock, PROBE_MS, core.over.signal, "the store's probe", put);
      this.#casRefusal = null;
      return cid;
    } catch (cause) {
      if (core.registration === null && isError(cause, "unauthenticated", "permission_denied")) {
        this.#casRefusal = cause;
        return cidOf(bytes);
      }
      throw new SubletError("unavailable", `the CAS takes no probe: ${messageOf(cause)}`, {
        cause,
      });
    } finally {
      answered();
    }
  }

  /** Tell whoever must know. A fault of theirs undoes no registration. */
  async #remember(first: boolean, registration: Registration): Promise<void> {
    const { options, log } = this.core;
    try {
      await options.incarnation.registered();
      if (first) options.onRegistered?.(registration);
    } catch (error) {
      log.event("worker.not_remembered", { error: messageOf(error) });
    }
  }
}
