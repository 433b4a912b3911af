/** @module Taking a bundle out of the CAS: its header is judged, its pack checked object by object and stored. */

import type { Cas, Cid } from "../cas/mod.ts";
import { messageOf, SubletError } from "../home/mod.ts";
import { type BundleHeader, headerEnd, MAX_HEADER_BYTES, parseHeader } from "./bundle.ts";
import { type Git, GitFailure } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";

/** A pack up to this size goes to git from memory, a larger one through a file. */
const MEMORY_BYTES = 1024 * 1024;

/**
 * What old tools got wrong in honest histories, and what harms nobody: no ground to refuse a repository. Anything else
 * that `git fsck` finds is.
 */
const FORGIVEN = [
  "badDate",
  "badDateOverflow",
  "badEmail",
  "badFilemode",
  "badName",
  "badTimezone",
  "emptyName",
  "missingEmail",
  "missingNameBeforeEmail",
  "missingSpaceBeforeDate",
  "missingSpaceBeforeEmail",
  "missingTaggerEntry",
  "multipleAuthors",
  "nulInCommit",
  "zeroPaddedDate",
  "zeroPaddedFilemode",
].map((id) => `${id}=ignore`).join(",");

/** Attributes that git itself passes over. Not every git has a name for them, and one that it has not is an error. */
const FORGIVEN_WHERE_KNOWN = /\bgitattributes(?:LineLength|Large|Blob)\b/g;

/** The repository that a bundle goes into. */
export interface Taker {
  readonly git: Git;
  readonly place: Place;
  /** Commits that are known to be lacking. */
  readonly absent: ReadonlySet<string>;
  /** Those of `revisions` that are here. */
  has(revisions: readonly string[]): Promise<ReadonlySet<string>>;
  /** A fresh path for a temporary file. */
  scratch(): Promise<string>;
}

/** A bundle on its way in: its header, and the stream that is left of it. */
interface Incoming {
  readonly header: BundleHeader;
  /** The first bytes of the pack, and what follows them. */
  readonly start: Uint8Array;
  readonly rest: ReadableStreamDefaultReader<Uint8Array>;
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  let at = 0;
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Open the bundle `blob` and read its header. The caller drains or cancels `rest`. */
async function openBundle(cas: Cas, blob: Cid, signal?: AbortSignal): Promise<Incoming> {
  const body = await cas.getStream(blob, signal === undefined ? {} : { signal });
  if (body === null) {
    throw new SubletError("not_found", `the transfer ${blob} is not in the CAS. Ask for it again`);
  }
  const rest = body.stream.getReader();
  try {
    let bytes: Uint8Array = new Uint8Array();
    for (;;) {
      const end = headerEnd(bytes);
      if (end !== null) {
        return { header: parseHeader(bytes.subarray(0, end)), start: bytes.subarray(end), rest };
      }
      const { done, value } = await rest.read();
      if (done || bytes.length > MAX_HEADER_BYTES) {
        throw new SubletError("failed", `the transfer ${blob} is no git bundle: it has no header`);
      }
      bytes = joined([bytes, value]);
    }
  } catch (error) {
    await rest.cancel().catch(() => {});
    throw error;
  }
}

/** Read the pack of `incoming` to its end: into memory, or into the file `scratch` when it is large. */
async function drain(
  { start, rest }: Incoming,
  scratch: string,
): Promise<Uint8Array | { readonly path: string }> {
  const parts = [start];
  let bytes = start.length;
  while (bytes <= MEMORY_BYTES) {
    const { done, value } = await rest.read();
    if (done) return joined(parts);
    parts.push(value);
    bytes += value.length;
  }
  try {
    await spill(parts, rest, scratch);
  } catch (error) {
    if (error instanceof SubletError) throw error;
    throw new SubletError(
      "unavailable",
      `cannot write a transfer to ${scratch}: ${
        messageOf(error)
      }. Free some space there, and try again`,
      { cause: error },
    );
  }
  return { path: scratch };
}

/** Write `parts` and what is left of `rest` to the new file `scratch`. */
async function spill(
  parts: readonly Uint8Array[],
  rest: ReadableStreamDefaultReader<Uint8Array>,
  scratch: string,
): Promise<void> {
  using file = await Deno.open(scratch, { write: true, createNew: true });
  const write = async (part: Uint8Array) => {
    for (let at = 0; at < part.length;) at += await file.write(part.subarray(at));
  };
  for (const part of parts) await write(part);
  for (;;) {
    const { done, value } = await rest.read();
    if (done) return;
    await write(value);
  }
}

/**
 * Store the pack of `incoming`, whose prerequisites are all here. A pack that is broken, that lacks an object which
 * one of its own names, or that holds one which could harm a checkout is refused whole.
 */
async function storePack(
  git: Git,
  place: Place,
  incoming: Incoming,
  scratch: string,
): Promise<void> {
  try {
    const stdin = await drain(incoming, scratch);
    const index = (forgiven: string) =>
      onPlace(git, place, {
        // Threads cost a small pack more than they give.
        args: ["index-pack", "--stdin", "--fix-thin", `--strict=${forgiven}`].concat(
          stdin instanceof Uint8Array ? ["--threads=1"] : [],
        ),
        stdin,
      });
    try {
      await index(FORGIVEN);
    } catch (error) {
      const named = error instanceof GitFailure ? error.stderr.match(FORGIVEN_WHERE_KNOWN) : null;
      if (named === null) throw error;
      await index(
        [FORGIVEN, ...new Set(named)].map((id) => id.includes("=") ? id : `${id}=ignore`).join(","),
      );
    }
  } finally {
    await Deno.remove(scratch).catch(() => {});
  }
}

/** Whether a bundle brings anything, given that its format and what it builds on are ours. */
async function brings(into: Taker, blob: Cid, header: BundleHeader): Promise<boolean> {
  const { place, absent } = into;
  if (header.format !== place.format) {
    throw new SubletError(
      "failed",
      `the transfer ${blob} is of a ${header.format} repository, and ${place.commonDir} is ${place.format}. ` +
        "Remove the replica when its repo of record was converted",
    );
  }
  const open = header.heads.filter((revision) => !absent.has(revision));
  const here = await into.has([...open, ...header.prerequisites]);
  const lost = header.prerequisites.find((revision) => !here.has(revision));
  if (lost !== undefined) {
    throw new SubletError(
      "failed",
      `the transfer ${blob} builds on commit ${lost}, which ${place.commonDir} lacks. Ask again with what it has`,
    );
  }
  return open.length < header.heads.length || open.some((revision) => !here.has(revision));
}

/** Take the bundle `blob` out of `cas`, unless all it brings is here; the heads that it names. */
export async function takeBundle(
  into: Taker,
  cas: Cas,
  blob: Cid,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  const incoming = await openBundle(cas, blob, signal);
  try {
    if (await brings(into, blob, incoming.header)) {
      await storePack(into.git, into.place, incoming, await into.scratch());
    }
    return incoming.header.heads;
  } finally {
    await incoming.rest.cancel().catch(() => {});
  }
}
