/** @module A worker reads what the server has for it: work, prompts, revokes, a drain. */

import { isError, messageOf } from "../home/mod.ts";
import { isUnanswered, type WorkerCore } from "./worker_core.ts";
import { Backoff, markNow, since } from "./worker_time.ts";
import { MAX_POLL_SECONDS, type Message } from "./wire.ts";

/** How much longer than its own wait a long-poll may take. */
const GRACE_SECONDS = 30;
const QUEUED_SECONDS = 30;
/** Between two polls that both said that work waits. */
const WORK_PAUSE_MS = 10;
const NOT_HERE = "the job does not run on this worker, or takes no prompts";

type Prompt = Extract<Message, { kind: "prompt" }>;

/**
 * The message loop. The cursor goes to the highest id that was read, but never past a prompt whose outcome the server
 * does not know: what either side forgets in a crash is read again, and a prompt is delivered once by this process.
 */
export class MessageReader {
  #after = 0;
  /**
   * Outcomes of prompts past the cursor, by id: null for delivered. A server whose database was restored may give an id
   * to another prompt, so each has what it is the outcome of.
   */
  readonly #outcomes = new Map<number, { readonly of: string; readonly said: string | null }>();
  readonly #unanswered = new Set<number>();

  constructor(private readonly core: WorkerCore) {}

  /** Where the server says that this worker is. */
  seek(cursor: number): void {
    this.#after = cursor;
    this.#outcomes.clear();
    this.#unanswered.clear();
  }

  async loop(): Promise<void> {
    const { core } = this;
    const { clock, over: { signal } } = core;
    const backoff = new Backoff(core.ids);
    while (!signal.aborted) {
      await core.registered.wait(signal);
      if (signal.aborted) return;
      const began = markNow(clock);
      const read = await this.#read();
      if (read === "moved") {
        backoff.reset();
        continue;
      }
      if (read === "work") {
        // Told at once when more work waits; the pause bounds what a server can ask for that says so again and again.
        await clock.sleep(WORK_PAUSE_MS, signal);
        continue;
      }
      // A server on its way down answers empty at once, and an unanswered prompt is read again at once.
      if (since(clock, began) < MAX_POLL_SECONDS * 500) await clock.sleep(backoff.next(), signal);
    }
  }

  /** One long-poll: whether it moved the cursor, said that work waits (which has no place in the feed), or neither. */
  async #read(): Promise<"moved" | "work" | "nothing"> {
    const { core } = this;
    const after = this.#after;
    let work = false;
    try {
      const page = await core.call(
        "messages",
        MAX_POLL_SECONDS + GRACE_SECONDS,
        (signal) => core.client.messages(after, MAX_POLL_SECONDS, signal),
      );
      work = page.some(({ kind }) => kind === "work");
      for (const message of page) await this.#take(message);
      this.#advance(page);
    } catch (error) {
      if (!isUnanswered(error)) {
        core.log.event("worker.messages_failed", { error: messageOf(error) });
      }
    }
    if (this.#after > after) return "moved";
    return work ? "work" : "nothing";
  }

  async #take(message: Message): Promise<void> {
    const { core } = this;
    switch (message.kind) {
      case "work":
        return core.mayAcquire.set();
      case "drain":
        return core.drainByServer();
      case "revoke": {
        const held = core.held.get(message.lease);
        if (held !== undefined) core.revoke(held);
        return;
      }
      case "prompt":
        return await this.#prompt(message);
    }
  }

  /** Deliver a prompt once, and say what became of it until the server knows. */
  async #prompt({ id, lease, prompt }: Prompt): Promise<void> {
    const { core } = this;
    const of = JSON.stringify([lease, prompt]);
    const known = this.#outcomes.get(id);
    this.#unanswered.add(id);
    const said = known?.of === of ? known.said : await this.#deliver(lease, prompt);
    // Nobody knows yet what job it is for: it is read again.
    if (said === undefined) return;
    this.#outcomes.set(id, { of, said });
    try {
      await core.call(
        "queued",
        QUEUED_SECONDS,
        (signal) => core.client.queued(id, said, signal),
      );
    } catch (error) {
      if (isUnanswered(error)) return;
      // Not addressed to this worker, or refused: nobody waits for this answer.
      if (!isError(error, "not_addressed")) {
        core.log.event("worker.prompt_unanswered", { message: id, error: messageOf(error) });
      }
      if (isError(error, "unknown_worker")) return;
    }
    this.#unanswered.delete(id);
  }

  async #deliver(lease: number, prompt: Prompt["prompt"]): Promise<string | null | undefined> {
    const { core } = this;
    const held = core.held.get(lease);
    // The next process of the worker will have the job, and read this.
    if (core.leaving.signal.aborted) return undefined;
    if (held === undefined || held.phase !== "running") return NOT_HERE;
    try {
      if (core.options.prompt !== undefined) return await core.options.prompt(lease, prompt.text);
      if (held.runner === null) return undefined;
      return held.runner.prompt === undefined ? NOT_HERE : await held.runner.prompt(lease, prompt);
    } catch (error) {
      return messageOf(error);
    }
  }

  #advance(page: readonly Message[]): void {
    const highest = Math.max(this.#after, ...page.map((message) => message.id));
    const lowest = Math.min(...this.#unanswered);
    this.#after = Math.max(this.#after, Math.min(highest, lowest - 1));
    // One that a restored server asks for again may be behind the cursor, and not answered.
    for (const id of this.#outcomes.keys()) {
      if (id <= this.#after && !this.#unanswered.has(id)) this.#outcomes.delete(id);
    }
  }
}
