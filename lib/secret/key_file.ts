/** @module The key that seals a home's secrets: a file of its owner's alone, beside the database and in none of its backups. */

import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { messageOf, SubletError } from "../home/mod.ts";
import { SealingKey } from "./seal.ts";

const TEXT = /^sublet-key-1:([A-Za-z0-9_-]{43})\n?$/;

/**
 * The key in the file at `path`, which is made if it is missing. Throws `config` for a file that is no key or that others
 * may read, and `unavailable` for one that cannot be read or made.
 */
export async function keyFile(path: string): Promise<SealingKey> {
  const text = await read(path) ?? await make(path);
  const encoded = TEXT.exec(text)?.[1];
  if (encoded === undefined) {
    throw new SubletError(
      "config",
      `${path} is no key of sublet's: put the right one back, or move it away and set every secret again`,
    );
  }
  return new SealingKey(new Uint8Array(Buffer.from(encoded, "base64url")));
}

async function read(path: string): Promise<string | null> {
  try {
    const { mode } = await Deno.stat(path);
    if (Deno.build.os !== "windows" && ((mode ?? 0) & 0o077) !== 0) {
      throw new SubletError(
        "config",
        `others may read ${path}: \`chmod 600 ${path}\`, and set the secrets that it seals anew`,
      );
    }
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    if (error instanceof SubletError) throw error;
    throw new SubletError("unavailable", `cannot read ${path}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** Make the file whole or not at all; when another process was first, its key counts. */
async function make(path: string): Promise<string> {
  const text = `sublet-key-1:${randomBytes(32).toString("base64url")}\n`;
  const temporary = `${path}.${crypto.randomUUID()}`;
  try {
    using file = await Deno.open(temporary, { createNew: true, write: true, mode: 0o600 });
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
    await file.sync();
    await Deno.link(temporary, path);
    return text;
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return await read(path) ?? text;
    throw new SubletError("unavailable", `cannot make ${path}: ${messageOf(error)}`, {
      cause: error,
    });
  } finally {
    await Deno.remove(temporary).catch(() => {});
  }
}
