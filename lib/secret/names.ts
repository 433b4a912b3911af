/** @module What a secret may be called, and hold. */

import { SubletError } from "../home/mod.ts";

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,255}$/;
/** What an environment variable may hold on every system that jobs run on, with room for others. */
const MAX_BYTES = 64 * 1024;
/** A shorter value stands in every text: hiding it would destroy what a job writes. */
const MIN_BYTES = 4;

const encoder = new TextEncoder();

/** Throws `invalid_request`, with the rule. The value itself is in no message. */
export function checkSecret(name: string, value: string): void {
  checkName(name);
  const refuse = (rule: string): never => {
    throw new SubletError("invalid_request", `the value of ${name} ${rule}`);
  };
  const { length } = encoder.encode(value);
  if (length === 0) refuse("is empty: `sublet secret delete` removes a secret");
  if (length < MIN_BYTES) {
    refuse(`is shorter than ${MIN_BYTES} bytes, so it cannot be hidden in what a job writes`);
  }
  if (length > MAX_BYTES) refuse(`is longer than ${MAX_BYTES} bytes: no variable holds that`);
  if (value.includes("\0")) refuse("holds a NUL, which no variable can");
  if (!value.isWellFormed()) refuse("is no Unicode text: encode it, as base64 for instance");
}

/** Throws `invalid_request` for what is no name of an environment variable. */
export function checkName(name: string): void {
  if (NAME.test(name)) return;
  throw new SubletError(
    "invalid_request",
    `'${name.slice(0, 100)}' is no name of a secret: letters, digits and '_', the first no digit`,
  );
}
