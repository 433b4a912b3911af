/**
 * @module The header of a git bundle, versions 2 and 3 (gitformat-bundle(5)): what a transfer holds and what it builds
 * on. We write version 3; a header from the wire is hostile.
 */

import { SubletError } from "../home/mod.ts";
import { formatOf, isRevision, type ObjectFormat } from "./names.ts";

/** What a bundle says of itself. */
export interface BundleHeader {
  readonly format: ObjectFormat;
  /** Commits that the receiver must have. */
  readonly prerequisites: readonly string[];
  /** Commits that it brings. */
  readonly heads: readonly string[];
}

/** The longest header: 10,000 heads and as many prerequisites of SHA-256 with a subject each fit. */
export const MAX_HEADER_BYTES = 4 * 1024 * 1024;

const SIGNATURES = new Map([["# v2 git bundle", 2], ["# v3 git bundle", 3]]);

function refuse(reason: string): never {
  throw new SubletError("failed", `the transfer is no git bundle that can be taken: ${reason}`);
}

/** The bytes of `header`, to the start of the pack. */
export function encodeHeader(header: BundleHeader): Uint8Array {
  const lines = [
    "# v3 git bundle",
    `@object-format=${header.format}`,
    ...header.prerequisites.map((revision) => `-${revision}`),
    ...header.heads.map((revision, i) => `${revision} refs/heads/${i}`),
    "",
    "",
  ];
  return new TextEncoder().encode(lines.join("\n"));
}

/** Where the pack starts in `bytes`, or null while the header's end is not there yet. */
export function headerEnd(bytes: Uint8Array): number | null {
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) {
    if (bytes[at + 1] === 10) return at + 2;
  }
  return null;
}

/** Parse a whole header, as `headerEnd` found it. Throws `failed` with what is wrong. */
export function parseHeader(bytes: Uint8Array): BundleHeader {
  // Refs and subjects may be any bytes; ids and capabilities are ASCII.
  const [signature = "", ...lines] = new TextDecoder("latin1").decode(bytes).split("\n");
  const version = SIGNATURES.get(signature);
  if (version === undefined) refuse("it does not start with '# v3 git bundle'");
  let format: ObjectFormat = "sha1";
  const prerequisites = new Set<string>();
  const heads = new Set<string>();
  for (const line of lines.slice(0, -2)) {
    if (line.startsWith("@") && version === 3) {
      const stated = /^@object-format=(sha1|sha256)$/.exec(line)?.[1];
      if (stated !== "sha1" && stated !== "sha256") {
        refuse(`it needs ${JSON.stringify(line.slice(0, 80))}, which is not supported`);
      }
      if (heads.size + prerequisites.size > 0) refuse("a capability comes after its commits");
      format = stated;
      continue;
    }
    const stated = /^(-?)([0-9a-f]+)(?: .*)?$/.exec(line);
    const id = stated?.[2] ?? "";
    if (!isRevision(id) || formatOf(id) !== format) {
      refuse(`its header holds the line ${JSON.stringify(line.slice(0, 80))}`);
    }
    (stated?.[1] === "-" ? prerequisites : heads).add(id);
  }
  if (heads.size === 0) refuse("it names no commit");
  return { format, prerequisites: [...prerequisites], heads: [...heads] };
}
