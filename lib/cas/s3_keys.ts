/** @module Keys of AWS, and how services and programs tell them. */

import * as z from "zod";
import { type Clock, type Env, SubletError } from "../home/mod.ts";
import { type Hosts, persist, textOf, Transient } from "./objects_calls.ts";

/** What requests are signed with. */
export interface AwsKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  /** Unix ms from which on they are refused. Null: never. */
  readonly expiresAt: number | null;
}

/** What sources of credentials need. */
export interface KeyContext {
  readonly env: Env;
  readonly hosts: Hosts;
  readonly clock: Clock;
  /** The region that the service for roles is asked in. */
  readonly region: string;
}

/** The JSON in which keys are told by metadata services and programs. */
export const keysAnswer = z.object({
  AccessKeyId: z.string().min(1),
  SecretAccessKey: z.string().min(1),
  Token: z.string().nullish(),
  SessionToken: z.string().nullish(),
  Expiration: z.string().nullish(),
}).transform((answer): AwsKeys => {
  const token = answer.SessionToken ?? answer.Token;
  const expiresAt = Date.parse(answer.Expiration ?? "");
  return {
    accessKeyId: answer.AccessKeyId,
    secretAccessKey: answer.SecretAccessKey,
    ...(token ? { sessionToken: token } : {}),
    expiresAt: Number.isNaN(expiresAt) ? null : expiresAt,
  };
});

/** The keys in `text`, an answer of `source`. Throws `config`, without the text, which may hold secrets. */
export function parseKeys(source: string, text: string): AwsKeys {
  try {
    return keysAnswer.parse(JSON.parse(text));
  } catch {
    throw new SubletError(
      "config",
      `${source} gave no AWS credentials (AccessKeyId, SecretAccessKey)`,
    );
  }
}

/** One small call of a metadata service or of STS, as text. Tried again like others. */
export async function ask(
  { hosts, clock }: KeyContext,
  what: string,
  url: URL,
  request: {
    method: string;
    headers?: Record<string, string>;
    body?: Uint8Array;
    timeoutMs?: number;
  },
): Promise<{ readonly status: number; readonly text: string }> {
  return await persist(what, clock, undefined, async () => {
    const answer = await hosts.send(url, request);
    const text = await textOf(answer);
    const { status } = answer;
    if (status < 500 && status !== 429) return { status, text };
    throw new Transient(new SubletError("unavailable", `${what}: it answered ${status}`));
  });
}
