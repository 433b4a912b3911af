/** @module Reading commits: through `cat-file --batch`, whose requests come by stdin and so can be no option. */

import { SubletError } from "../home/mod.ts";
import type { Version } from "./contract.ts";
import { damagedStore, type Git } from "./git_call.ts";
import { formatOf, isRevision } from "./names.ts";
import { onPlace, type Place } from "./place.ts";

/** Decode `bytes` as a commit's `encoding` header says, or as UTF-8. */
function decode(bytes: Uint8Array, encoding: string | null): string {
  try {
    return new TextDecoder(encoding ?? "utf-8").decode(bytes);
  } catch (error) {
    if (error instanceof RangeError) return new TextDecoder().decode(bytes);
    throw error;
  }
}

/** A version with the whole of its message. */
export interface Commit {
  readonly version: Version;
  readonly message: string;
}

/** The version that the commit object `content` is. */
export function parseCommit(revision: string, content: Uint8Array): Commit {
  const latin = decode(content, "latin1");
  const end = latin.indexOf("\n\n");
  const head = end < 0 ? latin : latin.slice(0, end);
  const tree = /^tree ([0-9a-f]+)$/m.exec(head)?.[1];
  if (tree === undefined || !isRevision(tree)) {
    throw new SubletError(
      "failed",
      `commit ${revision} names no tree. Run git fsck on its repository`,
    );
  }
  const encoding = /^encoding (\S+)$/m.exec(head)?.[1] ?? null;
  const message = end < 0 ? "" : decode(content.subarray(end + 2), encoding);
  const paragraph = message.replace(/^\s*\n/, "").split(/\n[^\S\n]*\n/, 1)[0] ?? "";
  const subject = paragraph.split("\n").map((line) => line.trim()).join(" ").trim();
  return { version: { revision, tree, subject }, message };
}

/** The commits `revisions` (full ids), in their order. Throws `not_found` for one that is not here. */
export async function readCommits(
  git: Git,
  place: Place,
  revisions: readonly string[],
): Promise<Commit[]> {
  if (revisions.length === 0) return [];
  const { stdout, stderr } = await onPlace(git, place, {
    args: ["cat-file", "--batch"],
    stdin: revisions.map((revision) => `${revision}\n`).join(""),
  });
  const commits: Commit[] = [];
  let at = 0;
  for (const revision of revisions) {
    const end = stdout.indexOf(10, at);
    const header = decode(stdout.subarray(at, Math.max(end, at)), "latin1");
    const size = /^[0-9a-f]+ commit (\d+)$/.exec(header)?.[1];
    if (size === undefined) {
      if (/^error: /m.test(stderr)) throw damagedStore(place.commonDir, stderr);
      throw new SubletError("not_found", `commit ${revision} is not in ${place.commonDir}`);
    }
    const start = end + 1;
    commits.push(parseCommit(revision, stdout.subarray(start, start + Number(size))));
    at = start + Number(size) + 1;
  }
  return commits;
}

/** The version that `name` (already judged) names in the repository at `place`, or null. */
export async function readVersion(git: Git, place: Place, name: string): Promise<Version | null> {
  const { stdout } = await onPlace(git, place, {
    gitDir: place.gitDir,
    args: ["cat-file", "--batch"],
    stdin: `${name}^{commit}\n`,
  });
  const line = stdout.indexOf(10);
  const header = decode(stdout.subarray(0, Math.max(line, 0)), null);
  const match = /^([0-9a-f]+) commit (\d+)$/.exec(header);
  const revision = match?.[1];
  if (revision === undefined) return null;
  // Some gits take 41 digits for an abbreviation of their first 40.
  if (/^[0-9a-f]+$/.test(name) && name.length > revision.length) return null;
  return parseCommit(revision, stdout.subarray(line + 1, line + 1 + Number(match?.[2]))).version;
}

/** Those of `revisions` (full ids) that are commits of the repository at `place`: one process for all of them. */
export async function presentCommits(
  git: Git,
  place: Place,
  revisions: readonly string[],
): Promise<Set<string>> {
  // An id of the other format would be taken for an abbreviation.
  const asked = revisions.filter((revision) => formatOf(revision) === place.format);
  if (asked.length === 0) return new Set();
  const { stdout, stderr } = await onPlace(git, place, {
    args: ["cat-file", "--batch-check=%(objectname) %(objecttype)"],
    stdin: asked.map((revision) => `${revision}\n`).join(""),
  });
  // It calls an object of a broken pack missing, and ends well: that is no answer.
  if (/^error: /m.test(stderr)) throw damagedStore(place.commonDir, stderr);
  const present = new Set<string>();
  for (const line of decode(stdout, null).split("\n")) {
    const [name, type] = line.split(" ");
    if (name !== undefined && type === "commit") present.add(name);
  }
  return present;
}

/** The newest `limit` versions up to `revision`, newest first. */
export async function readHistory(
  git: Git,
  place: Place,
  revision: string,
  limit: number,
): Promise<Version[]> {
  const { stdout } = await onPlace(git, place, {
    args: [
      "log",
      "-z",
      `--max-count=${limit}`,
      "--format=%H%n%T%n%s",
      "--end-of-options",
      revision,
      "--",
    ],
  });
  return decode(stdout, null).split("\0").filter((entry) => entry !== "").map((entry) => {
    const [commit = "", tree = "", ...subject] = entry.split("\n");
    return { revision: commit, tree, subject: subject.join(" ") };
  });
}

/** At most `max` tips of the repository at `place`, newest by committer date first. */
export async function readTips(git: Git, place: Place, max: number): Promise<string[]> {
  const { stdout } = await onPlace(git, place, {
    args: [
      "for-each-ref",
      "--sort=-creatordate",
      // Annotated tags and refs at one commit share tips: read more than are wanted.
      `--count=${max * 4}`,
      "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname)",
    ],
  });
  const tips = new Set<string>();
  for (const line of decode(stdout, null).split("\n")) {
    const [type, name, peeledType, peeled] = line.split(" ");
    const tip = type === "commit" ? name : peeledType === "commit" ? peeled : undefined;
    if (tip !== undefined && tips.size < max) tips.add(tip);
  }
  return [...tips];
}
