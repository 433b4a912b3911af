/** @module Messages that must arrive: kept until the worker's cursor has passed them, or a prompt is answered. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { leaseById, refOf } from "./fence.ts";
import { MAX_MESSAGES, type Message } from "./wire.ts";

/** A message to send. */
export type NewMail =
  | { readonly kind: "revoke"; readonly lease: number }
  | { readonly kind: "drain" }
  | {
    readonly kind: "prompt";
    readonly lease: number;
    readonly prompt: { readonly id: number; readonly text: string };
  };

type MailRow = Row & {
  id: number;
  kind: "revoke" | "drain" | "prompt";
  lease: number | null;
  prompt: number | null;
  prompt_text: string | null;
};

/** Write a message to `worker`, which is woken once it is durable; its id. */
export async function mail(core: Core, tx: Tx, worker: string, message: NewMail): Promise<number> {
  // Ids come from memory, which also knows the cursors that workers brought from before a restored backup.
  const id = ++core.newestMail;
  const prompt = message.kind === "prompt" ? message.prompt : null;
  await tx.run(
    `INSERT INTO lease_messages (id, worker, kind, lease, prompt, prompt_text, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
    [
      id,
      worker,
      message.kind,
      message.kind === "drain" ? null : message.lease,
      prompt?.id ?? null,
      prompt?.text ?? null,
      core.wall(),
    ],
  );
  tx.onCommit(() => {
    const member = core.roster.get(worker);
    if (member === undefined) return;
    member.newestMail = id;
    member.poll?.("mail");
  });
  return id;
}

/** What `worker` has to read after `after`, oldest first. */
export async function mailAfter(tx: Tx, worker: string, after: number): Promise<Message[]> {
  const rows = await tx.all<MailRow>(
    `SELECT id, kind, lease, prompt, prompt_text FROM lease_messages
     WHERE worker = ? AND answered_at IS NULL AND id > ? ORDER BY id LIMIT ?`,
    [worker, after, MAX_MESSAGES],
  );
  return rows.map(messageOf);
}

function messageOf(row: MailRow): Message {
  const { id, kind } = row;
  const lease = row.lease ?? 0;
  if (kind === "drain") return { kind, id };
  if (kind === "revoke") return { kind, id, lease };
  return { kind, id, lease, prompt: { id: row.prompt ?? 0, text: row.prompt_text ?? "" } };
}

/**
 * `worker` says that it has read everything up to `read`; up to where that is so. A worker passes no prompt that it has
 * not answered, so one that it did pass comes from a restored database and is to be read again.
 */
export async function moveCursor(
  core: Core,
  tx: Tx,
  worker: string,
  read: number,
): Promise<number> {
  const left = await tx.get<Row & { lowest: number | null }>(
    `SELECT min(id) AS lowest FROM lease_messages
     WHERE worker = ? AND answered_at IS NULL AND id <= ? AND kind = 'prompt'`,
    [worker, read],
  );
  const cursor = Math.min(read, (left?.lowest ?? Infinity) - 1);
  await tx.run("UPDATE lease_workers SET cursor = ? WHERE name = ?", [cursor, worker]);
  await tx.run(
    `UPDATE lease_messages SET answered_at = ?
     WHERE worker = ? AND answered_at IS NULL AND id <= ? AND kind <> 'prompt'`,
    [core.wall(), worker, cursor],
  );
  tx.onCommit(() => {
    const member = core.roster.get(worker);
    if (member !== undefined) member.cursor = cursor;
  });
  return cursor;
}

/** `worker` says what became of the prompt `message`. Repeatable. Throws `not_addressed` when it is none of its. */
export async function answerPrompt(
  core: Core,
  tx: Tx,
  worker: string,
  message: number,
  error: string | null,
): Promise<void> {
  const row = await tx.get<
    Row & { answered_at: number | null; lease: number; prompt: number }
  >(
    `SELECT answered_at, lease, prompt FROM lease_messages
     WHERE id = ? AND worker = ? AND kind = 'prompt'`,
    [message, worker],
  );
  if (row === null) {
    throw new SubletError("not_addressed", `message ${message} is no prompt for ${worker}`);
  }
  if (row.answered_at !== null) return;
  await tx.run("UPDATE lease_messages SET answered_at = ?, error = ? WHERE id = ?", [
    core.wall(),
    error,
    message,
  ]);
  const lease = await leaseById(tx, row.lease);
  if (lease === null) return;
  await core.kinds.get(lease.kind)?.answered?.(tx, refOf(lease), row.prompt, error);
}

/** `worker` is to work again: a drain that it has not read holds no more. */
export async function takeBackDrain(core: Core, tx: Tx, worker: string): Promise<void> {
  await tx.run(
    `UPDATE lease_messages SET answered_at = ?
     WHERE worker = ? AND answered_at IS NULL AND kind = 'drain'`,
    [core.wall(), worker],
  );
}

/** How many messages are kept once they are read, and how many are deleted at once. */
const KEPT_MAIL = 100_000;
const PRUNED_AT_ONCE = 1000;

/** Delete a bounded number of the oldest messages that were read. The newest stays, so that ids only grow. */
export async function pruneMail(tx: Tx): Promise<number> {
  return await tx.run(
    `DELETE FROM lease_messages WHERE id IN (
       SELECT id FROM lease_messages
       WHERE id <= (SELECT max(id) FROM lease_messages) - ? AND answered_at IS NOT NULL
       ORDER BY id LIMIT ?)`,
    [KEPT_MAIL, PRUNED_AT_ONCE],
  );
}
