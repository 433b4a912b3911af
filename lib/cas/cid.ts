/**
 * @module The text and the digest of a CID, and the name of a stored object.
 *
 * A CID is CIDv1 (https://github.com/multiformats/cid) with the codec raw (0x55) or DRISL (0x71) over a 32-byte
 * BLAKE3 digest (multihash 0x1e), in lower-case base32 without padding (multibase `b`): 59 characters.
 */

import { Buffer } from "node:buffer";
import { SubletError } from "../home/mod.ts";
import { blake3 } from "./blake3.ts";
import type { Cid } from "./contract.ts";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

/** Value of each ASCII code in base32; 255: not in the alphabet. */
const VALUES = new Uint8Array(128).fill(255);
for (let i = 0; i < ALPHABET.length; i++) VALUES[ALPHABET.charCodeAt(i)] = i;

/** The ASCII code of each value. */
const CODES = Uint8Array.from(ALPHABET, (letter) => letter.charCodeAt(0));

const RAW_PREFIX = "bafkr4i";
const DRISL_PREFIX = "bafyr4i";

// The six characters after `b` hold 30 of the header's 32 bits. The other two are zero, so that the next character
// is one of the first eight, and the two bits left over at the end must be zero, so that the last is a multiple of 4.
const CID_TEXT = /^baf[ky]r4i[a-h][a-z2-7]{50}[aeimquy4]$/;

// 52 characters hold 260 bits: four are left over, and must be zero.
const OBJECT_NAME = /^[a-z2-7]{51}[aq]$/;

function whyNoCid(text: string): string {
  if (text.length !== 59) return `it has ${text.length} characters, not 59`;
  if (/^b[A-Z2-7]+$/i.test(text) && text !== text.toLowerCase()) return "it has upper-case letters";
  if (!text.startsWith("b")) return "it is not base32 (multibase 'b')";
  if (!/^[a-z2-7]+$/.test(text)) return "it has characters outside base32";
  if (text.startsWith("bafkrei") || text.startsWith("bafyrei")) return "its hash is SHA-256";
  if (!/^baf[ky]r4i[a-h]/.test(text)) {
    return "it is not CIDv1, raw or DRISL, with a 32-byte BLAKE3 hash";
  }
  return "its unused last bits are not zero";
}

/** `text` as a CID. Throws `invalid_cid` unless it is exactly the canonical text of a raw or DRISL BLAKE3 CIDv1. */
export function parseCid(text: string): Cid {
  if (CID_TEXT.test(text)) return text as Cid;
  const shown = JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
  throw new SubletError(
    "invalid_cid",
    `${shown} is no CID of a blob: ${whyNoCid(text)}. Use a CID as a put returned it (bafkr4i…)`,
  );
}

/** Whether `text` is a CID that {@linkcode parseCid} takes. */
export function isCid(text: string): text is Cid {
  return CID_TEXT.test(text);
}

/** The codes of a CID's text, to be filled in: text that is built character by character takes many times the memory. */
const TEXT = new Uint8Array(59);
const LATIN1 = Buffer.from(TEXT.buffer);

function checkDigest(digest: Uint8Array): void {
  if (digest.length !== 32) {
    throw new TypeError(`a BLAKE3 digest has 32 bytes, not ${digest.length}`);
  }
}

function withHeader(prefix: string, digest: Uint8Array): Cid {
  checkDigest(digest);
  for (let i = 0; i < prefix.length; i++) TEXT[i] = prefix.charCodeAt(i);
  // The header's last two bits are zero, and are the first of a character.
  let bits = 2;
  let held = 0;
  let at = prefix.length;
  for (let i = 0; i < digest.length; i++) {
    held = (held << 8) | (digest[i] ?? 0);
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      TEXT[at++] = CODES[(held >>> bits) & 31] ?? 0;
    }
    held &= 31;
  }
  TEXT[at] = CODES[(held << (5 - bits)) & 31] ?? 0;
  return LATIN1.toString("latin1") as Cid;
}

/** The raw CID of a 32-byte BLAKE3 digest. */
export function cidOfDigest(digest: Uint8Array): Cid {
  return withHeader(RAW_PREFIX, digest);
}

/** The DRISL CID of a 32-byte BLAKE3 digest: the address of a manifest. */
export function drislCid(digest: Uint8Array): Cid {
  return withHeader(DRISL_PREFIX, digest);
}

/** The raw CID of `bytes`. */
export function cidOf(bytes: Uint8Array): Cid {
  return cidOfDigest(blake3(bytes));
}

/** The 36 bytes of `cid`: version, codec, hash, length, digest. */
export function cidBytes(cid: Cid): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(36);
  let bits = 0;
  let held = 0;
  let at = 0;
  for (let i = 1; i < cid.length && at < 36; i++) {
    held = ((held & 0xff) << 5) | (VALUES[cid.charCodeAt(i)] ?? 0);
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes[at++] = held >>> bits;
    }
  }
  return bytes;
}

/** The 32-byte BLAKE3 digest of `cid`. */
export function digestOf(cid: Cid): Uint8Array<ArrayBuffer> {
  return cidBytes(cid).slice(4);
}

/** The raw CID with the digest of `cid`. */
export function rawCid(cid: Cid): Cid {
  return cid.startsWith(RAW_PREFIX) ? cid : (RAW_PREFIX + cid.slice(7)) as Cid;
}

/** Whether `cid` has the DRISL codec, so that its bytes are a manifest. */
export function isDrisl(cid: Cid): boolean {
  return cid.startsWith(DRISL_PREFIX);
}

/** Whether two CIDs have the same digest, and so the same bytes. */
export function sameBlob(a: Cid, b: Cid): boolean {
  return a === b || a.slice(7) === b.slice(7);
}

/** The name of a blob's directory in a store: base32 of the digest alone, 52 characters. */
export function objectName(cid: Cid): string {
  // The digest starts two bits into a character of the CID, so each character of the name takes three bits of one
  // and two of the next.
  let name = "";
  let value = VALUES[cid.charCodeAt(7)] ?? 0;
  for (let i = 8; i < 59; i++) {
    const next = VALUES[cid.charCodeAt(i)] ?? 0;
    name += ALPHABET[((value & 7) << 2) | (next >>> 3)];
    value = next;
  }
  return name + ALPHABET[(value & 7) << 2];
}

/** The raw CID of the object named `name` (see {@linkcode objectName}), or null when it is no such name. */
export function nameToCid(name: string): Cid | null {
  if (!OBJECT_NAME.test(name)) return null;
  let text = RAW_PREFIX;
  let value = 0;
  for (let i = 0; i < 52; i++) {
    const next = VALUES[name.charCodeAt(i)] ?? 0;
    text += ALPHABET[((value & 3) << 3) | (next >>> 2)];
    value = next;
  }
  return text as Cid;
}
