/** @module Paths of a checkout as git hands them out: any bytes but NUL. */

import { Buffer } from "node:buffer";

/** A path, a character for each of its bytes. It is compared, cut and handed back to git; never opened as it is. */
export type RawPath = string;

/** The raw path of `text`. */
export function rawPath(text: string): RawPath {
  return Buffer.from(text, "utf8").toString("latin1");
}

/** The bytes of `raw`. */
export function rawBytes(raw: string): Uint8Array {
  return Buffer.from(raw, "latin1");
}

/** `raw` as a path that can be opened, or null when its bytes are no UTF-8. */
export function openable(raw: RawPath): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(rawBytes(raw));
  } catch {
    return null;
  }
}

/** `raw` for people. */
export function shown(raw: RawPath): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(rawBytes(raw));
}

/** The fields of NUL-separated output. */
export function fields(output: Uint8Array): string[] {
  const text = Buffer.from(output.buffer, output.byteOffset, output.byteLength).toString("latin1");
  const found = text.split("\0");
  if (found.at(-1) === "") found.pop();
  return found;
}
