/**
 * @module A worker's replica: empty until its first fetch, filled through the CAS alone, and rebuilt by itself when it
 * is damaged (a truncated pack, a file that a power cut emptied, a directory that somebody removed).
 */

import type { Cas } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { Ask, Supply } from "./contract.ts";
import type { Tolerance } from "./fitness.ts";
import { type Git, GitFailure } from "./git_call.ts";
import { absolutePath, formatOf, fullRevision } from "./names.ts";
import { addOwn } from "./own.ts";
import { onPlace, type Place } from "./place.ts";
import { findReplica, inUse, makeReplica, sweepReplica } from "./replica_files.ts";
import { somethingAt } from "./remove_tree.ts";
import { GitRepository, type VcsPorts } from "./repository.ts";
import { tend } from "./upkeep.ts";

/** Failures of git that say what is wrong, and are no damage. */
const EXPLAINED =
  /invalid path|File name too long|No space left|Disk quota|Permission denied|Read-only file system|Too many open files/;
/** Exit codes of `git fsck` beyond "an object is odd": unreachable, broken pack, refs, commit graph, pack index. */
const FSCK_DAMAGE = ~1;

/** The replica of a repo of record. */
export class GitReplica extends GitRepository {
  /** Counts rebuilds, so that of many who see one damage only the first mends it. */
  #rebuilt = 0;
  /** Commits that jobs may be using, to come again after a rebuild. */
  #owed: string[] = [];
  #tips: string[] | null = null;
  #fetches = 0;

  /** The replica at `path`, swept of what an earlier process left there. */
  static async open(
    path: string,
    git: Git,
    ports: VcsPorts,
    tolerance: Tolerance,
  ): Promise<GitReplica> {
    const at = absolutePath(path);
    const place = await findReplica(at);
    if (place !== null) await sweepReplica(place, ports.ids);
    return new GitReplica(at, place, git, ports, tolerance);
  }

  /** A replica changes by our own fetches alone, so its tips are read once. */
  override async tips(max = 64): Promise<string[]> {
    this.#tips ??= await super.tips(64);
    return this.#tips.slice(0, max);
  }

  override async fetch(
    cas: Cas,
    revisions: readonly string[],
    ask: Ask,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#mending({ cas, ask }, signal, async () => {
      const fetched = await this.#obtain({ cas, ask }, revisions, signal);
      await this.pin(fetched);
    });
  }

  override async checkout(
    revision: string,
    path: string,
    supply?: Supply,
    signal?: AbortSignal,
  ): Promise<void> {
    fullRevision(revision);
    const at = absolutePath(path);
    await this.#mending(supply, signal, async () => {
      const fetched = supply === undefined ? [] : await this.#obtain(supply, [revision], signal);
      const [pinned, put] = await Promise.allSettled([
        this.pin(fetched),
        this.put(revision, at, signal),
      ]);
      if (pinned.status === "rejected") {
        if (put.status === "fulfilled") await this.clear(at);
        throw pinned.reason;
      }
      if (put.status === "rejected") throw put.reason;
    });
  }

  /** Off the path of a job, what fetches left is put in order too. */
  override async discard(path: string): Promise<void> {
    await super.discard(path);
    const place = this.place;
    if (place === null || this.#fetches === 0) return;
    this.#fetches = 0;
    try {
      await this.lock.shared(() => tend(this.git, place));
    } catch (error) {
      this.ports.log.event("vcs.upkeep_failed", { path: this.path, error: String(error) });
    }
  }

  /** In a repository of its own, so that a job can harm neither the replica nor another job. */
  protected override async addFiles(place: Place, revision: string, path: string): Promise<string> {
    return await addOwn(this.git, place, revision, path, this.ports.ids);
  }

  protected override async pin(revisions: readonly string[]): Promise<void> {
    if (revisions.length === 0) return;
    await super.pin(revisions);
    this.#tips = [...new Set([...revisions, ...this.#tips ?? []])].slice(0, 64);
  }

  /** Bring those of `revisions` that are lacking; they are not pinned yet. */
  async #obtain(
    supply: Supply,
    revisions: readonly string[],
    signal?: AbortSignal,
  ): Promise<string[]> {
    const missed = await this.lacking(revisions);
    if (missed.length === 0) return [];
    // An empty replica gets its whole history once, not once for each job that starts meanwhile.
    const first = (await this.tips()).length === 0;
    const bring = async () => {
      // While this waited to be alone, another may have brought them.
      const lacking = first ? await this.lacking(missed) : missed;
      const [one] = lacking;
      if (one === undefined) return [];
      this.place ??= await makeReplica(this.git, this.path, formatOf(one), this.ports.ids);
      this.#fetches++;
      const owed = this.#owed;
      await this.bring(supply, [...new Set([...lacking, ...owed])], signal);
      this.#owed = [];
      const fetched = [...new Set([...lacking, ...await this.has(owed)])];
      if (!first) return fetched;
      await this.pin(fetched);
      return [];
    };
    return first ? await this.lock.exclusive(bring, signal) : await this.lock.shared(bring, signal);
  }

  /** Run `body`; when the replica proves damaged and a supply is there, rebuild it and run `body` once more. */
  async #mending<T>(
    supply: Supply | undefined,
    signal: AbortSignal | undefined,
    body: () => Promise<T>,
  ): Promise<T> {
    const seen = this.#rebuilt;
    try {
      return await body();
    } catch (error) {
      if (supply === undefined || !await this.#mayBeDamage(error)) throw error;
      await this.lock.exclusive(async () => {
        if (this.#rebuilt !== seen) return;
        if (!await this.#isDamaged()) throw error;
        await this.#rebuild(error);
      }, signal);
      return await body();
    }
  }

  async #mayBeDamage(error: unknown): Promise<boolean> {
    if (this.place === null) return false;
    if (error instanceof GitFailure) return error.exitCode <= 128 && !EXPLAINED.test(error.stderr);
    return error instanceof SubletError && !await somethingAt(`${this.path}/HEAD`);
  }

  async #isDamaged(): Promise<boolean> {
    const place = this.place;
    if (place === null || !await somethingAt(`${this.path}/HEAD`)) return true;
    const { code } = await onPlace(this.git, place, {
      args: ["fsck", "--full", "--no-dangling", "--no-progress", "--no-reflogs"],
      answers: Array.from({ length: 129 }, (_, code) => code),
    });
    return (code & FSCK_DAMAGE) !== 0;
  }

  async #rebuild(cause: unknown): Promise<void> {
    const place = this.place;
    if (place === null) return;
    this.ports.log.event("vcs.replica_rebuilt", { path: this.path, cause: String(cause) });
    this.forget();
    this.#tips = null;
    this.#owed = await inUse(place);
    this.place = await makeReplica(this.git, this.path, place.format, this.ports.ids);
    this.#rebuilt++;
  }
}
