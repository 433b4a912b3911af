/** @module A git repository behind the contract: the repo of record, and what a replica shares with it. */

import type { Cas, Cid } from "../cas/mod.ts";
import { type Clock, type Ids, type Log, SubletError } from "../home/mod.ts";
import { captureCheckout } from "./capture.ts";
import { checkoutChanged } from "./changed.ts";
import { presentCommits, readCommits, readHistory, readTips, readVersion } from "./commits.ts";
import type {
  Ask,
  Captured,
  CaptureOptions,
  Merged,
  Repository,
  Saved,
  Sent,
  Supply,
  Transfer,
  Version,
} from "./contract.ts";
import { judgeCheckout, type Tolerance } from "./fitness.ts";
import { type Exec, type Git, GitFailure } from "./git_call.ts";
import { UseLock } from "./lock.ts";
import { isAncestor, mergeTree, mergeVersions } from "./merge.ts";
import { absolutePath, fullRevision, PINS, refName, refPrefix, versionName } from "./names.ts";
import { readObjects } from "./objects.ts";
import { originOf, ownCheckout, ownCheckouts, passOver, removeOwn } from "./own.ts";
import type { Place } from "./place.ts";
import { listRefs, updateRefs } from "./refs.ts";
import { removeTree, somethingAt } from "./remove_tree.ts";
import { readSaved } from "./saved.ts";
import { refuseShallow, sendBundle } from "./send.ts";
import { takeBundle, type Taker } from "./take.ts";
import { leftCheckout } from "./left.ts";
import type { CaptureParts, LeftCheckout } from "./standing.ts";
import { addWorktree, ourWorktrees, unregister } from "./worktree.ts";

/** What a repository gets of its machine. */
export interface VcsPorts {
  readonly processes: Exec;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
}

/** How many `have` a worker's `send` may hold. */
const MAX_TIPS = 64;
/** How many commits are remembered as present. */
const REMEMBERED = 50_000;
/** How many versions of one transfer are read. */
const MAX_SAVED = 10_000;

const unique = (revisions: readonly string[]) => [...new Set(revisions.map(fullRevision))];

/** The repository at a {@linkcode Place}. */
export class GitRepository implements Repository {
  readonly path: string;
  protected readonly git: Git;
  protected readonly ports: VcsPorts;
  protected readonly lock = new UseLock();
  #tolerance: Tolerance;
  readonly #present = new Set<string>();
  readonly #fit = new Set<string>();
  #place: Place | null;

  constructor(path: string, place: Place | null, git: Git, ports: VcsPorts, tolerance: Tolerance) {
    this.path = path;
    this.#place = place;
    this.git = git;
    this.ports = ports;
    this.#tolerance = tolerance;
  }

  /** Go by another table of the campaign's file from now on. */
  tolerate(tolerance: Tolerance): void {
    const { submodules, lfs } = this.#tolerance;
    if (tolerance.submodules === submodules && tolerance.lfs === lfs) return;
    this.#tolerance = tolerance;
    this.#fit.clear();
  }

  /** Where it is, or null for a replica that holds nothing yet. */
  protected get place(): Place | null {
    return this.#place;
  }

  protected set place(place: Place | null) {
    this.#place = place;
  }

  /** Forget what was seen of it. */
  protected forget(): void {
    this.#present.clear();
    this.#fit.clear();
  }

  #here(): Place {
    if (this.#place !== null) return this.#place;
    throw new SubletError(
      "not_found",
      `the replica at ${this.path} holds nothing yet. Fetch first`,
    );
  }

  async head(): Promise<Version> {
    return await this.version("HEAD");
  }

  async version(name: string): Promise<Version> {
    const found = this.#place === null
      ? null
      : await readVersion(this.git, this.#place, versionName(name));
    if (found !== null) {
      this.remember([found.revision]);
      return found;
    }
    throw new SubletError(
      "not_found",
      name === "HEAD"
        ? `the repository at ${this.path} has no commit yet. Commit something first`
        : `${
          JSON.stringify(name)
        } names no commit of the repository at ${this.path}. See git log --all`,
    );
  }

  async history(limit: number, revision?: string): Promise<Version[]> {
    const from = revision === undefined ? (await this.head()).revision : fullRevision(revision);
    const found = await readHistory(this.git, this.#here(), from, Math.max(1, Math.floor(limit)));
    this.remember(found.map((version) => version.revision));
    return found;
  }

  async has(revisions: readonly string[]): Promise<Set<string>> {
    const asked = unique(revisions);
    const unknown = asked.filter((revision) => !this.#present.has(revision));
    if (unknown.length > 0 && this.#place !== null) {
      this.remember(await presentCommits(this.git, this.#place, unknown));
    }
    return new Set(asked.filter((revision) => this.#present.has(revision)));
  }

  protected remember(revisions: Iterable<string>): void {
    if (this.#present.size > REMEMBERED) this.#present.clear();
    for (const revision of revisions) this.#present.add(revision);
  }

  async tips(max = MAX_TIPS): Promise<string[]> {
    return this.#place === null ? [] : await readTips(this.git, this.#place, max);
  }

  async contains(revision: string, ancestor: string): Promise<boolean> {
    const place = this.#here();
    const [onto, other] = [fullRevision(revision), fullRevision(ancestor)];
    if (await isAncestor(this.git, place, other, onto)) return true;
    const merged = await mergeTree(this.git, place, onto, other);
    return "tree" in merged && merged.tree === (await this.version(onto)).tree;
  }

  async merge(onto: string, other: string, message: string): Promise<Merged> {
    const place = this.#here();
    const [one, two] = [fullRevision(onto), fullRevision(other)];
    return await mergeVersions(this.git, place, one, two, message, this.ports.clock.now());
  }

  async saved(base: string, head: string, limit = MAX_SAVED): Promise<Saved[]> {
    const most = Math.min(MAX_SAVED, Math.max(1, Math.floor(limit)));
    const place = this.#here();
    return await readSaved(this.git, place, fullRevision(base), fullRevision(head), most);
  }

  async kept(prefix: string): Promise<Version[]> {
    const refs = await listRefs(this.git, this.#here(), refPrefix(prefix));
    const commits = await readCommits(this.git, this.#here(), refs.map(({ revision }) => revision));
    return commits.map(({ version }) => version);
  }

  async untracked(revision: string, names: readonly string[]): Promise<string[]> {
    const held = await this.objects(revision, names);
    return names.filter((name) => !held.has(name));
  }

  async objects(revision: string, paths: readonly string[]): Promise<Map<string, string>> {
    return await readObjects(this.git, this.#here(), fullRevision(revision), paths);
  }

  async keep(revision: string, name: string): Promise<void> {
    const refs = new Map([[refName(name), fullRevision(revision)]]);
    await updateRefs(this.git, this.#here(), this.ports.clock, refs);
  }

  async send(
    cas: Cas,
    revisions: readonly string[],
    have: readonly string[],
    signal?: AbortSignal,
  ): Promise<Sent | null> {
    const place = this.#here();
    await refuseShallow(place);
    const attempt = async () => {
      const known = await this.has([...revisions, ...have]);
      const held = new Set(unique(have).filter((revision) => known.has(revision)));
      const heads = unique(revisions).filter((id) => known.has(id) && !held.has(id));
      if (heads.length === 0) return null;
      const header = { format: place.format, prerequisites: [...held], heads };
      return await sendBundle(this.git, place, cas, header, await this.scratch(place), signal);
    };
    try {
      return await attempt();
    } catch (error) {
      // What was seen before may have been pruned since.
      if (!(error instanceof GitFailure) || this.#present.size === 0) throw error;
      this.forget();
      return await attempt();
    }
  }

  async receive(
    cas: Cas,
    work: Transfer,
    base: string,
    signal?: AbortSignal,
  ): Promise<Saved[]> {
    this.#here();
    const head = fullRevision(work.head);
    fullRevision(base);
    const heads = await this.lock.shared(
      () => this.take(cas, [work.blob], new Set(), signal),
      signal,
    );
    const here = await this.has([...heads, head]);
    const lost = [head, ...heads].find((revision) => !here.has(revision));
    if (lost !== undefined) {
      throw new SubletError(
        "failed",
        `the transfer ${work.blob} was to bring commit ${lost} and does not hold it. Send it again`,
      );
    }
    return await this.saved(base, head);
  }

  async fetch(
    cas: Cas,
    revisions: readonly string[],
    ask: Ask,
    signal?: AbortSignal,
  ): Promise<void> {
    const lacking = await this.lacking(revisions);
    if (lacking.length === 0) return;
    await this.lock.shared(() => this.bring({ cas, ask }, lacking, signal), signal);
    await this.pin(lacking);
  }

  async checkout(
    revision: string,
    path: string,
    supply?: Supply,
    signal?: AbortSignal,
  ): Promise<void> {
    if (supply !== undefined) await this.fetch(supply.cas, [revision], supply.ask, signal);
    await this.put(fullRevision(revision), absolutePath(path), signal);
  }

  async passOver(at: string, paths: readonly string[]): Promise<void> {
    const own = ownCheckout(this.#here(), absolutePath(at));
    if (await originOf(own) !== null) await passOver(own, paths);
  }

  async discard(path: string): Promise<void> {
    await this.clear(path);
  }

  /** Remove what is at `path`, and its registration. */
  protected async clear(at: string): Promise<void> {
    const path = absolutePath(at);
    const place = this.#place;
    if (path === "/" || (place !== null && `${place.commonDir}/`.startsWith(`${path}/`))) {
      throw new SubletError("invalid_request", `${path} holds the repository itself: not removed`);
    }
    const aside = await removeTree(path, this.ports.ids);
    if (aside !== null) this.ports.log.event("vcs.unremovable", { path, aside });
    if (place === null) return;
    await unregister(place, path);
    await removeOwn(place, path, this.ports.ids);
  }

  async checkouts(root: string): Promise<string[]> {
    const beneath = `${absolutePath(root)}/`.replace("//", "/");
    const place = this.#place;
    const made = place === null ? [] : [...await ourWorktrees(place), ...await ownCheckouts(place)];
    return made.map(({ path }) => path).filter((path) => path.startsWith(beneath)).sort();
  }

  async changed(
    path: string,
    base: string,
    options: Pick<CaptureOptions, "ignore"> = {},
  ): Promise<boolean> {
    return await this.#looking(
      path,
      base,
      (parts, left) => checkoutChanged(parts, left, options.ignore ?? []),
    );
  }

  async capture(
    cas: Cas,
    path: string,
    base: string,
    options: CaptureOptions = {},
  ): Promise<Captured> {
    return await this.#looking(
      path,
      base,
      (parts, left) => captureCheckout(parts, cas, left, options),
      options.signal,
    );
  }

  /** Look at the checkout of `base` at `path`, beside others who use the repository. */
  async #looking<T>(
    at: string,
    base: string,
    look: (parts: CaptureParts, left: LeftCheckout) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const place = this.#here();
    const left = await leftCheckout(place, absolutePath(at), fullRevision(base));
    return await this.lock.shared(async () => {
      const scratch = await this.scratch(place);
      await Deno.mkdir(scratch);
      try {
        return await look({ git: this.git, place, clock: this.ports.clock, scratch }, left);
      } finally {
        await removeTree(scratch, this.ports.ids);
      }
    }, signal);
  }

  /** Those of `revisions` that are not here. */
  protected async lacking(revisions: readonly string[]): Promise<string[]> {
    const here = await this.has(revisions);
    return unique(revisions).filter((revision) => !here.has(revision));
  }

  /** Ask for `lacking` and take what comes. */
  protected async bring(
    { cas, ask }: Supply,
    lacking: readonly string[],
    signal?: AbortSignal,
  ): Promise<void> {
    const have = await this.tips();
    this.remember(have);
    const blobs = await ask(lacking, have);
    signal?.throwIfAborted();
    await this.take(cas, blobs, new Set(lacking), signal);
  }

  /** Store `blobs` in order; the heads they name. `absent` are known to be lacking. */
  protected async take(
    cas: Cas,
    blobs: readonly Cid[],
    absent: ReadonlySet<string>,
    signal?: AbortSignal,
  ): Promise<string[]> {
    const place = this.#here();
    const into: Taker = {
      git: this.git,
      place,
      absent,
      has: (revisions) => this.has(revisions),
      scratch: () => this.scratch(place),
    };
    const heads: string[] = [];
    for (const blob of blobs) {
      heads.push(...await takeBundle(into, cas, blob, signal));
      signal?.throwIfAborted();
    }
    return heads;
  }

  /** Pin `revisions`, which were fetched just now. `not_found` names those that did not come. */
  protected async pin(revisions: readonly string[]): Promise<void> {
    const pins = (ids: readonly string[]) => new Map(ids.map((id) => [`${PINS}${id}`, id]));
    try {
      await updateRefs(this.git, this.#here(), this.ports.clock, pins(revisions));
      this.remember(revisions);
    } catch (error) {
      if (!(error instanceof GitFailure)) throw error;
      const here = await this.has(revisions);
      const lost = revisions.filter((revision) => !here.has(revision));
      if (lost.length === 0) throw error;
      await updateRefs(this.git, this.#here(), this.ports.clock, pins([...here]));
      throw new SubletError(
        "not_found",
        `the repo of record does not hold ${lost.length} of ${revisions.length} commits, such as ${
          lost.slice(0, 3).join(", ")
        }. Push them there, or submit a commit that it holds`,
      );
    }
  }

  /** Put the files of `revision` at `path`, where nothing is; the path of their index. */
  protected async addFiles(place: Place, revision: string, path: string): Promise<string> {
    return await addWorktree(this.git, place, revision, path);
  }

  /** Put the files of `revision` at `path`; on a failure nothing is left there. */
  protected async put(revision: string, path: string, signal?: AbortSignal): Promise<void> {
    const place = this.#here();
    if (await somethingAt(path)) await this.clear(path);
    try {
      await this.lock.shared(async () => {
        const index = await this.addFiles(place, revision, path);
        if (this.#fit.has(revision)) return;
        await judgeCheckout(revision, path, index, place.format, this.#tolerance);
        this.#fit.add(revision);
      }, signal);
    } catch (error) {
      await this.clear(path);
      throw error;
    }
  }

  /** A fresh path for a temporary file, among the repository's own. */
  protected async scratch(place: Place): Promise<string> {
    const directory = `${place.commonDir}/sublet-tmp`;
    await Deno.mkdir(directory, { recursive: true });
    return `${directory}/${this.ports.ids.uuid()}`;
  }
}
