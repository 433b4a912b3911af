/** @module Sealing: AES-256-GCM with a fresh nonce, bound to whose the value is and what it is called. */

import { Buffer } from "node:buffer";
import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { SubletError } from "../home/mod.ts";

const ALGORITHM = "aes-256-gcm";
const VERSION = 1;
const NONCE = 12;
const TAG = 16;

/** A key of 32 bytes. */
export class SealingKey {
  readonly #key: Uint8Array;
  /** Tells keys apart, and nothing about the key: 16 hex digits of a hash of it. */
  readonly id: string;

  constructor(key: Uint8Array) {
    if (key.length !== 32) throw new SubletError("internal", "a sealing key has 32 bytes");
    this.#key = key;
    this.id = createHash("sha256").update("sublet sealing key\0").update(key).digest("hex")
      .slice(0, 16);
  }

  /** `value`, so that nobody can read it without the key, or put it in the place of another `context`. */
  seal(context: string, value: string): Uint8Array {
    const nonce = randomBytes(NONCE);
    const cipher = createCipheriv(ALGORITHM, this.#key, nonce);
    cipher.setAAD(new TextEncoder().encode(context));
    const body = [cipher.update(value, "utf8"), cipher.final()];
    return new Uint8Array(
      Buffer.concat([Uint8Array.of(VERSION), nonce, ...body, cipher.getAuthTag()]),
    );
  }

  /** What {@linkcode seal} took. Throws `integrity` for anything that it did not make with this key and context. */
  open(context: string, sealed: Uint8Array): string {
    const end = sealed.length - TAG;
    if (sealed[0] !== VERSION || end < 1 + NONCE) throw damaged();
    const nonce = sealed.subarray(1, 1 + NONCE);
    const decipher = createDecipheriv(ALGORITHM, this.#key, nonce, { authTagLength: TAG });
    decipher.setAAD(new TextEncoder().encode(context));
    decipher.setAuthTag(sealed.subarray(end));
    try {
      const bytes = [decipher.update(sealed.subarray(1 + NONCE, end)), decipher.final()];
      return Buffer.concat(bytes).toString("utf8");
    } catch (cause) {
      throw damaged(cause);
    }
  }
}

function damaged(cause?: unknown): SubletError {
  return new SubletError("integrity", "a sealed value was changed, or sealed with another key", {
    cause,
  });
}
