/**
 * @module The form that nearly all entries of a manifest have as bytes: a plain path in ASCII and small
 * numbers. It is read and written without a value in between; every other entry takes the way that judges each
 * rule.
 */

const ascii = (text: string) => new TextEncoder().encode(text);

/** What comes before the digest of a file's blob: its key, the tag of a link, and how the CID of a raw blob starts. */
export const BLOB: Uint8Array = new Uint8Array([
  ...ascii("dblob"),
  ...[0xd8, 0x2a, 0x58, 0x25, 0x00, 0x01, 0x55, 0x1e, 0x20],
]);
/** Other keys, as they are written, in their order. */
export const KEY = {
  link: ascii("dlink"),
  mode: ascii("dmode"),
  path: ascii("dpath"),
  size: ascii("dsize"),
  mtime: ascii("hmtime_ns"),
} as const;
/** The head of a text without its length. */
export const TEXT = 0x60;
/** The longest path and target of a link in this form. */
export const MAX_PLAIN = 255;

/** Of each byte: 1 where no rule about paths speaks of it, 2 of a dot, 3 of a slash, 0 of any other. */
const CLASS = new Uint8Array(256);
for (let code = 0x21; code < 0x7f; code++) CLASS[code] = 1;
for (const other of ascii("\\:~")) CLASS[other] = 0;
CLASS[0x2e] = 2;
CLASS[0x2f] = 3;

/** Whether these bytes are ASCII without what text seldom holds. */
export function isPlain(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (CLASS[bytes[at] ?? 0] === 0) return false;
  return true;
}

/** Whether a path of these bytes is safe for sure. Of others that has to be asked. */
export function isPlainPath(bytes: Uint8Array, from: number, to: number): boolean {
  let start = true;
  for (let at = from; at < to; at++) {
    const kind = CLASS[bytes[at] ?? 0];
    if (kind === 0 || (start && kind !== 1)) return false;
    start = kind === 3;
  }
  return !start;
}
