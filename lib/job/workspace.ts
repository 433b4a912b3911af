/**
 * @module The shared workspace of a campaign: files that its agents leave for one another, beside what git holds. An
 * agent gets a copy as it was when its job was made; what it wrote is put back path by path, and the first writer wins.
 */

import {
  type Cas,
  type Cid,
  isLink,
  readEntries,
  sameBlob,
  SeenFiles,
  storeTree,
} from "../cas/mod.ts";
import { mkdirBeneath } from "../home/mod.ts";
import type { LandedWorkspace } from "./agent_store.ts";
import type { Source } from "./shapes.ts";
import { sameFile, WorkspacePath } from "./workspace_path.ts";

/** How often a name beside is looked for. */
const MAX_BESIDE = 100;
/** The name of a file that is being written: see `writeBeneath`. */
const PART = /^\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.part$/;

/** What an agent did to its copy. */
export interface WorkspaceChanges {
  /** The manifest of the copy that it got. */
  readonly snapshot: Cid;
  /** Files that it wrote, by path; null: removed. */
  readonly changes: Readonly<Record<string, Cid | null>>;
  /** Who, for the names of files that are kept beside: `<role>-<agent>`. */
  readonly author: string;
}

/** The workspaces of a home's campaigns. */
export class Workspaces {
  readonly #home: string;
  readonly #cas: Cas;
  readonly #seen = new SeenFiles();
  readonly #swept = new Set<number>();
  /** The last of what is done to each campaign's: one thing at a time. */
  readonly #last = new Map<number, Promise<unknown>>();

  /** `home` is the server's; workspaces are beneath its `projects`. */
  constructor(home: string, cas: Cas) {
    this.#home = home;
    this.#cas = cas;
  }

  /** Store the campaign's workspace as it is now. Throws `unsafe_path` for a name that no job may hold. */
  snapshot(campaign: number): Promise<NonNullable<Source["workspace"]>> {
    return this.#alone(campaign, async () => {
      const place = placeOf(campaign);
      await this.#open(campaign);
      const { manifest } = await storeTree(this.#cas, `${this.#home}/${place}`, {
        seen: this.#seen,
      });
      return { place, manifest };
    });
  }

  /**
   * Put what an agent did into the campaign's workspace, in the order of the paths. Repeatable: what is there already
   * changes nothing. Throws when the store or the disk fails; then some paths may be done.
   */
  merge(campaign: number, work: WorkspaceChanges): Promise<LandedWorkspace> {
    return this.#alone(campaign, async () => {
      const root = await this.#open(campaign);
      const before = await this.#blobs(work);
      const landed: Landing = { written: 0, removed: 0, beside: {}, blocked: {}, kept: [] };
      for (const path of Object.keys(work.changes).sort()) {
        const at = new WorkspacePath(root, path, this.#cas);
        await mergePath(
          at,
          before.get(path) ?? null,
          work.changes[path] ?? null,
          work.author,
          landed,
        );
      }
      return landed;
    });
  }

  /** Make the directory, and remove what a process that died in the middle of a write left there. */
  async #open(campaign: number): Promise<string> {
    mkdirBeneath(this.#home, placeOf(campaign));
    const root = `${this.#home}/${placeOf(campaign)}`;
    if (this.#swept.has(campaign)) return root;
    await sweep(root);
    this.#swept.add(campaign);
    return root;
  }

  /** What the agent got at the paths that it changed. */
  async #blobs({ snapshot, changes }: WorkspaceChanges): Promise<Map<string, Cid>> {
    const blobs = new Map<string, Cid>();
    for await (const entry of readEntries(this.#cas, snapshot)) {
      if (!isLink(entry) && Object.hasOwn(changes, entry.path)) blobs.set(entry.path, entry.blob);
    }
    return blobs;
  }

  async #alone<T>(campaign: number, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(campaign) ?? Promise.resolve();
    const mine = before.then(work, work);
    this.#last.set(campaign, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(campaign) === mine) this.#last.delete(campaign);
    }
  }
}

async function sweep(directory: string): Promise<void> {
  for await (const { name, isDirectory, isFile } of Deno.readDir(directory)) {
    const path = `${directory}/${name}`;
    if (isDirectory) await sweep(path);
    else if (isFile && PART.test(name)) await Deno.remove(path);
  }
}

/** Where a campaign's workspace is beneath the home. */
function placeOf(campaign: number): string {
  return `projects/${campaign}/workspace`;
}

interface Landing {
  written: number;
  removed: number;
  beside: Record<string, string>;
  blocked: Record<string, string>;
  kept: string[];
}

/** One path: `before` is what the agent got there, `wanted` what it left; null: nothing. */
async function mergePath(
  at: WorkspacePath,
  before: Cid | null,
  wanted: Cid | null,
  author: string,
  landed: Landing,
): Promise<void> {
  const there = await at.state();
  const blob = there.kind === "file" ? there.blob : null;
  const asBefore = there.kind !== "blocked" && sameFile(blob, before);
  if (wanted === null) {
    if (there.kind === "nothing") return;
    if (!asBefore) {
      landed.kept.push(at.path);
      return;
    }
    await at.remove();
    landed.removed++;
    return;
  }
  if (blob !== null && sameBlob(blob, wanted)) return;
  if (asBefore && await at.write(wanted, blob !== null)) {
    landed.written++;
    return;
  }
  const beside = there.kind === "blocked" ? null : await keepBeside(at, wanted, author);
  if (beside === null) landed.blocked[at.path] = wanted;
  else landed.beside[at.path] = beside;
}

/** Keep `wanted` under a name beside, which nothing else has; null: there is none. */
async function keepBeside(at: WorkspacePath, wanted: Cid, author: string): Promise<string | null> {
  for (let n = 1; n <= MAX_BESIDE; n++) {
    const beside = at.beside(n === 1 ? author : `${author}.${n}`);
    if (beside === null) return null;
    const there = await beside.state();
    if (there.kind === "blocked") return null;
    if (there.kind === "file" && sameBlob(there.blob, wanted)) return beside.path;
    if (there.kind === "nothing" && await beside.write(wanted, false)) return beside.path;
  }
  return null;
}
