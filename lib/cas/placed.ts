/** @module A tree that was put in place, and whether it stayed what it was. */

import { join } from "node:path";
import { setImmediate } from "node:timers";
import { sameBlob } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { each } from "./each.ts";
import { hashFile } from "./hash_file.ts";
import { type Entry, isLink } from "./manifest.ts";
import type { Tree } from "./manifests.ts";
import { readStampSync, sameStamp, type Stamp } from "./stamp.ts";

/** Files that are hashed at once. */
const WIDTH = 16;
/** Files that are looked at before others get their turn. */
const BATCH = 256;
/** Blobs that are named. */
const SHOWN = 100;

/** In the place of an inode: nothing of ours is there; a symbolic link is. */
const [NOT_OURS, LINK] = [NaN, -1];

/** Something that is no longer what was put there: changed, removed, or replaced by other content. */
export interface ChangedPath {
  readonly path: string;
  /** The shared copy itself has other content: whoever links to it may have written that. */
  readonly shared: boolean;
}

/** What is in place of an entry: the stamp of a file, or a link; null: what was there before, or nothing. */
export type InPlace = Stamp | "link" | null;

/** A tree that is in place. It takes 18 bytes of memory for each entry. */
export class Placed {
  /** Of each entry the inode and the time. */
  readonly #numbers: Float64Array;
  readonly #modes: Uint16Array;
  #files = 0;
  #rebuilt = 0;
  /** Blobs whose shared copy was not what it had been, and was made again: the first of them. */
  readonly rebuilt: Cid[] = [];

  /** Of `tree`, at `path` beneath `root`, or with an empty path at `root` itself. */
  constructor(readonly tree: Tree, readonly root: string, readonly path: string) {
    this.#numbers = new Float64Array(tree.summary.count * 2).fill(NOT_OURS);
    this.#modes = new Uint16Array(tree.summary.count);
  }

  /** How many files and links were put in place; those that were there before do not count. */
  get files(): number {
    return this.#files;
  }

  /** How many shared copies were made again. */
  get rebuiltCount(): number {
    return this.#rebuilt;
  }

  /** The path of `entry` beneath the root. */
  at(entry: Entry): string {
    return this.path === "" ? entry.path : `${this.path}/${entry.path}`;
  }

  /** The entry with this `index` is in place. */
  add(index: number, what: Stamp | "link"): void {
    this.#files++;
    if (what === "link") return void (this.#numbers[index * 2] = LINK);
    this.#numbers[index * 2] = what.inode;
    this.#numbers[index * 2 + 1] = what.mtime;
    this.#modes[index] = what.mode;
  }

  addRebuilt(blob: Cid): void {
    if (this.#rebuilt++ < SHOWN) this.rebuilt.push(blob);
  }

  #of(index: number, { size }: Entry): InPlace {
    const inode = this.#numbers[index * 2] ?? NOT_OURS;
    if (Number.isNaN(inode)) return null;
    if (inode === LINK) return "link";
    const mtime = this.#numbers[index * 2 + 1] ?? 0;
    return { inode, size, mode: this.#modes[index] ?? 0, mtime, changed: 0 };
  }

  /**
   * Whether each entry, in order, is still what was put there; null for one that was not. Files that do not look so are
   * hashed.
   */
  async *states(): AsyncGenerator<readonly State[], void, undefined> {
    let index = 0;
    for await (const batch of this.tree.batches()) {
      const states: State[] = [];
      const unsure: { state: State; what: InPlace }[] = [];
      for (const entry of batch) {
        const what = this.#of(index++, entry);
        const state: State = { entry, path: this.at(entry), now: what === null ? null : "same" };
        states.push(state);
        if (what !== null && !this.#looksSame(state, what)) unsure.push({ state, what });
        if (index % BATCH === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      await each(unsure, WIDTH, async ({ state, what }) => {
        state.now = await this.#now(state, what);
      });
      yield states;
    }
  }

  /** What is no longer what was put there, by path. */
  async *changes(): AsyncGenerator<ChangedPath, void, undefined> {
    for await (const states of this.states()) {
      for (const { path, now } of states) {
        if (now !== null && now !== "same") yield { path, shared: now === "shared" };
      }
    }
  }

  #looksSame({ entry, path }: State, what: InPlace): boolean {
    const at = join(this.root, path);
    try {
      if (isLink(entry)) return Deno.readLinkSync(at) === entry.link;
      const found = readStampSync(at);
      return found !== null && what !== null && what !== "link" && sameStamp(found, what);
    } catch {
      // Whatever cannot be read there any more is not what was put there.
      return false;
    }
  }

  async #now({ entry, path }: State, what: InPlace): Promise<State["now"]> {
    let other: State["now"] = "other";
    try {
      const at = join(this.root, path);
      const found = isLink(entry) ? null : readStampSync(at);
      if (found === null || isLink(entry)) return "other";
      if (what !== null && what !== "link" && found.inode === what.inode) other = "shared";
      if (found.size !== entry.size) return other;
      return sameBlob(await hashFile(at), entry.blob) ? "same" : other;
    } catch {
      return other;
    }
  }
}

/** An entry of a tree that was put in place. */
export interface State {
  readonly entry: Entry;
  /** Beneath the root. */
  readonly path: string;
  /** Null: it was not put there. `shared`: the shared copy has other content. */
  now: "same" | "shared" | "other" | null;
}
