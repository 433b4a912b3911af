/**
 * @module Bringing home what a job left in its checkout: its commits, and the work that it did not commit as one more
 * on top. It is read with settings of our own, from a private repository, so a broken or hostile one is no obstacle.
 */

import type { Cas } from "../cas/mod.ts";
import { isError, messageOf, SubletError } from "../home/mod.ts";
import { readCommits } from "./commits.ts";
import type { Branch, Captured, CaptureOptions, Sent, Version } from "./contract.ts";
import { Gatherer, type GatherLimits } from "./gather.ts";
import type { Git } from "./git_call.ts";
import { indexEntries } from "./index_file.ts";
import { isContentFault, type JailOptions, makeJail } from "./jail.ts";
import type { Tip } from "./job_refs.ts";
import { ageIndex, type OwnCheckout } from "./own.ts";
import { onPlace, type Place } from "./place.ts";
import { rawPath } from "./raw_path.ts";
import { somethingAt } from "./remove_tree.ts";
import { sendBundle } from "./send.ts";
import {
  beyond,
  type CaptureParts,
  commitsOf,
  type LeftCheckout,
  type Standing,
  standingOf,
} from "./standing.ts";
import { ignoredPaths } from "./work_files.ts";
import { writeCommit } from "./write_commit.ts";

const GIB = 1024 ** 3;
/** How many commits beside the head are brought home. */
const MAX_BRANCHES = 64;

const MESSAGE = `Save work that was left uncommitted

The job ended with these changes in its checkout.

Sublet-Recovered: agent`;

/** Submodules that the index of the checkout as it was made holds. */
async function submodulesOf(own: OwnCheckout | null, place: Place): Promise<Set<string>> {
  const links = new Set<string>();
  if (own === null) return links;
  const bytes = await Deno.readFile(`${own.root}/index`).catch(() => null);
  if (bytes === null) return links;
  try {
    for (const entry of indexEntries(bytes, place.format)) {
      if (entry.submodule) links.add(entry.path);
    }
  } catch (error) {
    // Spoiled: the jail starts without it.
    if (!isError(error, "failed")) throw error;
  }
  return links;
}

/** One way to capture: which commit the unsaved work goes on. */
interface Way {
  /** Null: on none, as a history of its own. */
  readonly parent: string | null;
  readonly tips: readonly Tip[];
  /** Whether the index as the checkout was made is started from. */
  readonly fromIndex: boolean;
  readonly borrowed: readonly string[];
}

/** Captures one checkout. */
class Capture {
  readonly notes: string[] = [];
  #jails = 0;

  constructor(
    private readonly parts: CaptureParts,
    private readonly left: LeftCheckout,
    private readonly standing: Standing,
    private readonly options: CaptureOptions,
  ) {
    this.notes.push(...standing.notes);
  }

  jail(borrowed: readonly string[], more: Partial<JailOptions> = {}): Promise<Place> {
    const { place, scratch } = this.parts;
    return makeJail(place, `${scratch}/${this.#jails++}`, { borrowed, ...more });
  }

  /** Every way, best first: each loses less of the history than the next, and none of the files. */
  async *ways(): AsyncGenerator<Way> {
    const { git } = this.parts;
    const { head, tips, borrowed } = this.standing;
    const { base } = this.left;
    const asked = [
      ...(head.revision === null ? [] : [head.revision]),
      ...tips.map((tip) => tip.revision),
    ];
    // That the base is there shows when it is used.
    let known = new Map([[base, base]]);
    try {
      const others = asked.filter((revision) => revision !== base);
      if (others.length > 0) {
        known = new Map([...known, ...await commitsOf(git, await this.jail(borrowed), others)]);
      }
    } catch (error) {
      if (!isContentFault(error)) throw error;
    }
    const here = head.revision === null ? undefined : known.get(head.revision);
    if (head.revision === null) {
      this.notes.push(
        head.branch === null
          ? "the job's HEAD cannot be read: files are saved on top of what it started from"
          : `the job was on the new branch ${head.branch} without a commit: files are saved on top of what it started from`,
      );
    } else if (here === undefined) {
      this.notes.push(`the job's HEAD names ${head.revision}, which is not there`);
    }
    const sides = tips.flatMap(({ name, revision }) => {
      const id = known.get(revision);
      return id === undefined ? [] : [{ name, revision: id }];
    });
    const way = { tips: sides, borrowed, fromIndex: true };
    if (here !== undefined) {
      yield { ...way, parent: here };
      if (sides.length > 0) yield { ...way, parent: here, tips: [] };
    }
    if (here !== base) {
      yield { ...way, parent: base };
      if (sides.length > 0) yield { ...way, parent: base, tips: [] };
    }
    yield { parent: base, tips: [], fromIndex: false, borrowed };
    yield { parent: null, tips: [], fromIndex: false, borrowed: [] };
  }

  async run(cas: Cas): Promise<Captured> {
    let failure: unknown = null;
    for await (const way of this.ways()) {
      this.options.signal?.throwIfAborted();
      try {
        if (failure !== null) {
          this.notes.push(
            `the job's history could not be taken in full (${
              messageOf(failure)
            }): files are saved on top of ${way.parent ?? "nothing"}`,
          );
        }
        return await this.#along(cas, way);
      } catch (error) {
        if (!isContentFault(error)) throw error;
        failure = error;
      }
    }
    throw failure;
  }

  async #along(cas: Cas, way: Way): Promise<Captured> {
    const { git, place } = this.parts;
    const { own, base } = this.left;
    const index = way.fromIndex && own !== null ? `${own.root}/index` : null;
    const jail = await this.jail(way.borrowed, { index, excludesOf: this.standing.excludesOf });
    const limits: GatherLimits = {
      maxFileBytes: this.options.maxFileBytes ?? GIB,
      maxBytes: this.options.maxBytes ?? 8 * GIB,
      maxFiles: this.options.maxFiles ?? 200_000,
    };
    const gatherer = new Gatherer(git, jail, own?.gitDir ?? null, limits);
    const unsaved = await this.#unsaved(jail, way, gatherer);
    const head = unsaved?.revision ?? way.parent ?? base;
    const known = way.parent === null ? [] : [base];
    const tips = await this.#tipsOf(jail, way, gatherer);
    const [main] = await beyond(git, jail, [{ name: "HEAD", revision: head }], known);
    const branches = (await beyond(git, jail, tips, [...known, head])).filter(first);
    if (branches.length > MAX_BRANCHES) {
      this.notes.push(
        `${branches.length - MAX_BRANCHES} branches are left out: there are too many`,
      );
    }
    const sides = branches.slice(0, MAX_BRANCHES);
    const heads = [...(main === undefined ? [] : [head]), ...sides.map((side) => side.revision)];
    const sent = await this.#send(cas, jail, heads, known, place);
    const leftOut = { leftOut: gatherer.leftOut, leftOutCount: gatherer.leftOutCount };
    return {
      work: sent === null ? null : { blob: sent.blob, head: main === undefined ? base : head },
      bytes: sent?.bytes ?? 0,
      unsaved,
      branches: sides,
      ...leftOut,
      notes: [...new Set([...this.notes, ...gatherer.notes])],
    };
  }

  /** The version of what is not committed, or null when all is. */
  async #unsaved(jail: Place, way: Way, gatherer: Gatherer): Promise<Version | null> {
    const { git, place, clock } = this.parts;
    const { workTree } = this.standing;
    if (workTree === null) return null;
    const ignored = ignoredPaths(this.options.ignore ?? []);
    if (way.parent !== null) await this.#start(jail, way.parent);
    const submodules = await submodulesOf(this.left.own, place);
    const tree = await gatherer.tree(workTree, ignored, submodules);
    if (tree === null) return null;
    const before = way.parent === null ? null : await treeOf(git, jail, way.parent);
    if (tree === before) return null;
    const commit = await writeCommit(git, jail, {
      tree,
      parents: way.parent === null ? [] : [way.parent],
      message: this.options.message ?? MESSAGE,
      at: clock.now(),
    });
    const [written] = await readCommits(git, jail, [commit]);
    if (written === undefined) throw new SubletError("failed", `commit ${commit} is gone`);
    return written.version;
  }

  /** Start the index of `jail` from `parent`. What is known of files that it holds as the base does is kept. */
  async #start(jail: Place, parent: string): Promise<void> {
    const { git } = this.parts;
    const index = `${jail.gitDir}/index`;
    if (parent === this.left.origin?.base && await somethingAt(index)) return;
    const args = ["read-tree", "-i", "-m", parent];
    const aged = await Deno.stat(index).then(({ mtime }) => mtime, () => null);
    try {
      await onPlace(git, jail, { args });
      // Written now, it would hide what was changed in the second in which the checkout was made.
      if (aged !== null) await ageIndex(index, aged);
    } catch (error) {
      // An index that was spoiled: all files are read then.
      if (!isContentFault(error) || !await somethingAt(index)) throw error;
      await Deno.remove(index);
      await onPlace(git, jail, { args });
    }
  }

  /** The named commits of `way`; those of linked worktrees with what is not committed there. */
  async #tipsOf(jail: Place, way: Way, gatherer: Gatherer): Promise<Tip[]> {
    const tips = [...way.tips];
    const { workTree, worktrees } = this.standing;
    const found = new Map(gatherer.worktrees.map(({ name, path }) => [name, path]));
    for (const { name, path } of worktrees) {
      if (workTree !== null && `${path}/`.startsWith(`${workTree}/`)) continue;
      if (!found.has(name)) found.set(name, path);
    }
    for (const [name, path] of [...found].slice(0, MAX_BRANCHES)) {
      const tip = `worktrees/${name}`;
      const at = tips.findIndex((each) => each.name === tip);
      try {
        const revision = await this.#leftIn(
          jail,
          tips[at]?.revision ?? this.left.base,
          path,
          gatherer,
        );
        if (revision === null) continue;
        if (at >= 0) tips.splice(at, 1);
        tips.push({ name: tip, revision });
      } catch (error) {
        if (!isContentFault(error)) throw error;
        gatherer.leave(rawPath(path), `a linked worktree that cannot be read: ${messageOf(error)}`);
      }
    }
    return tips;
  }

  /** A commit of what is not committed in the linked worktree at `path`, on top of `parent`; null when all is. */
  async #leftIn(
    jail: Place,
    parent: string,
    path: string,
    gatherer: Gatherer,
  ): Promise<string | null> {
    const { git, clock } = this.parts;
    const tree = await gatherer.treeFrom(parent, path);
    if (tree === null || tree === await treeOf(git, jail, parent)) return null;
    const message = this.options.message ?? MESSAGE;
    return await writeCommit(git, jail, { tree, parents: [parent], message, at: clock.now() });
  }

  async #send(
    cas: Cas,
    jail: Place,
    heads: readonly string[],
    known: readonly string[],
    { format }: Place,
  ): Promise<Sent | null> {
    if (heads.length === 0) return null;
    const header = { format, prerequisites: known, heads: [...new Set(heads)] };
    const pack = `${this.parts.scratch}/${this.#jails++}.pack`;
    return await sendBundle(this.parts.git, jail, cas, header, pack, this.options.signal);
  }
}

/** Of names for one commit the first is kept. */
function first(tip: Branch, at: number, tips: readonly Branch[]): boolean {
  return tips.findIndex(({ revision }) => revision === tip.revision) === at;
}

async function treeOf(git: Git, jail: Place, revision: string): Promise<string> {
  const [commit] = await readCommits(git, jail, [revision]);
  if (commit === undefined) throw new SubletError("not_found", `commit ${revision} is not there`);
  return commit.version.tree;
}

/** Put what `left` has beyond its base into `cas`. */
export async function captureCheckout(
  parts: CaptureParts,
  cas: Cas,
  left: LeftCheckout,
  options: CaptureOptions,
): Promise<Captured> {
  const standing = await standingOf(parts, left);
  return await new Capture(parts, left, standing, options).run(cas);
}
