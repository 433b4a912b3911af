/**
 * @module A worker reads its messages: a long-poll that costs nothing while it waits. What was written is read from the
 * database when it comes; that work waits is told and kept nowhere, since an acquire says it better.
 */

import { SubletError } from "../home/mod.ts";
import type { Core } from "./core.ts";
import { answerPrompt, mailAfter, moveCursor } from "./mail.ts";
import type { Member, Wake, WorkerCaller } from "./member.ts";
import { knownMember } from "./members.ts";
import { MAX_POLL_SECONDS, type Message } from "./wire.ts";

/** How far beyond the newest message a cursor may be and still be believed to come from before a restore. */
const BELIEVED_AHEAD = 10_000_000;

/**
 * The messages for the caller after `after`, oldest first; none when there were none for `wait` seconds, the engine
 * closes, the caller leaves (`signal`), or another poll of it came.
 */
export async function messages(
  core: Core,
  caller: WorkerCaller,
  after: number,
  wait: number,
  signal?: AbortSignal,
): Promise<Message[]> {
  const known = await knownMember(core, caller);
  const from = await acknowledge(core, known, after);
  const deadline = core.clock.monotonic() + Math.min(wait, MAX_POLL_SECONDS) * 1000;
  while (true) {
    const member = core.roster.check(caller);
    const { newestMail } = member;
    if (newestMail > from) {
      const found = await core.db.read((tx) => mailAfter(tx, caller.name, from));
      if (found.length > 0) return found;
      // All of it is answered, unless some was written since the look.
      if (member.newestMail === newestMail) member.newestMail = from;
      continue;
    }
    const work: Message = { kind: "work", id: after };
    if (core.state !== "open" || signal?.aborted) return [];
    if (core.offers.claim(member)) return [work];
    const left = deadline - core.clock.monotonic();
    if (left <= 0) return [];
    const wake = await park(core, member, left, signal);
    if (wake === "work") return [work];
    if (wake === "nothing") return [];
  }
}

/** Keep the cursor; from where to read. */
async function acknowledge(core: Core, member: Member, after: number): Promise<number> {
  if (after > core.newestMail) {
    // The database is older than what the worker has read: an earlier one was restored. New ids start beyond its
    // cursor, and what was written since the restore is read once more.
    const from = Math.min(member.cursor, core.newestMail);
    if (after - core.newestMail <= BELIEVED_AHEAD) core.newestMail = after;
    return from;
  }
  if (after !== member.cursor) {
    return await core.db.write((tx) => moveCursor(core, tx, member.name, after));
  }
  return after;
}

/** Wait in `member`'s only parked poll; an earlier one ends. */
function park(core: Core, member: Member, ms: number, signal?: AbortSignal): Promise<Wake> {
  return new Promise((resolve) => {
    member.poll?.("nothing");
    const end = (wake: Wake) => {
      if (member.poll === end) {
        member.poll = null;
        core.offers.reconsider(member);
      }
      cancel();
      signal?.removeEventListener("abort", leave);
      resolve(wake);
    };
    const leave = () => end("nothing");
    const cancel = core.clock.after(ms, leave);
    signal?.addEventListener("abort", leave);
    member.poll = end;
    core.offers.reconsider(member);
  });
}

/** The caller says what became of a prompt. Throws `not_addressed`. */
export async function queued(
  core: Core,
  caller: WorkerCaller,
  message: number,
  error: string | null,
): Promise<void> {
  const member = await knownMember(core, caller);
  if (!Number.isSafeInteger(message)) {
    throw new SubletError("not_addressed", `message ${message} is no prompt for ${member.name}`);
  }
  await core.write((tx) =>
    answerPrompt(
      core,
      tx,
      member.name,
      message,
      error?.replaceAll("\0", " ").slice(0, 2000) ?? null,
    )
  );
}
