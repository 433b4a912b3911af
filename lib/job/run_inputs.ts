/** @module The linked inputs of a job: put into its checkout before it runs, and checked afterwards. */

import { join } from "node:path";
import {
  Manifests,
  materialise,
  type NewLink,
  type Placed,
  SharedInputs,
  type Tree,
} from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { Site } from "./runner.ts";
import type { Source } from "./shapes.ts";

/** Symbolic links that one helper process makes. */
const BATCH = 100;
/** The script that makes links: target, path, target, path… */
export const MAKE_LINKS = 'while [ $# -gt 0 ]; do ln -s -- "$1" "$2" || exit 1; shift 2; done';

/** What the jobs of a worker share of their inputs. */
export class Inputs {
  readonly shared: SharedInputs;
  readonly manifests: Manifests;
  readonly #present = new Set<Visit>();

  constructor({ cas, home }: Site) {
    this.shared = new SharedInputs(cas, join(home, "inputs"));
    this.manifests = new Manifests(cas, { shared: this.shared });
  }

  /** A run begins, with or without inputs, and ends when its visit is disposed of. */
  enter(has: boolean): Visit {
    const visit = new Visit(() => this.#present.delete(visit));
    if (!has) return visit;
    for (const other of this.#present) visit.meets(other);
    this.#present.add(visit);
    return visit;
  }
}

/** One run's use of the shared inputs. */
export class Visit implements Disposable {
  #alone = true;

  constructor(private readonly over: () => void) {}

  /** Whether no other run used any meanwhile. */
  get alone(): boolean {
    return this.#alone;
  }

  meets(other: Visit): void {
    this.#alone = false;
    other.#alone = false;
  }

  [Symbol.dispose](): void {
    this.over();
  }
}

/** Names that an event or an error holds. */
const SHOWN = 10;

/**
 * Put the links of `source` into the checkout at `root`, as read-only shared copies. What the checkout has already
 * stays.
 */
export async function placeInputs(
  site: Site,
  inputs: Inputs,
  source: Source,
  root: string,
  signal: AbortSignal,
): Promise<Placed[]> {
  const placed: Placed[] = [];
  for (const [name, address] of Object.entries(source.links)) {
    const tree = await inputs.manifests.open(address);
    const one = await materialise(tree, root, holdsName(tree, name) ? "" : name, inputs.shared, {
      what: `link ${JSON.stringify(name)}`,
      makeLinks: (links) => makeLinks(site, links),
      signal,
    });
    tellRebuilt(site, name, one);
    placed.push(one);
  }
  return placed;
}

/** Say that shared copies had been changed by somebody. */
export function tellRebuilt(site: Site, link: string, { rebuilt, rebuiltCount }: Placed): void {
  if (rebuiltCount === 0) return;
  const blobs = rebuilt.slice(0, SHOWN);
  site.log.event("inputs.rebuilt", { link, count: rebuiltCount, blobs });
}

/** Whether the manifest's paths go from the checkout's root, and not from the link: both are in use. */
function holdsName({ summary: { count, first, last } }: Tree, name: string): boolean {
  // They are in order, so that those between two in a directory are in it, too.
  const holds = (path: string) => path === name || path.startsWith(`${name}/`);
  return count > 0 && holds(first) && holds(last);
}

async function makeLinks(site: Site, links: readonly NewLink[]): Promise<void> {
  try {
    for (const { target, path } of links) Deno.symlinkSync(target, path);
  } catch (error) {
    // A process with limited permissions may make no link at all, since it could point anywhere.
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
    for (let at = 0; at < links.length; at += BATCH) {
      const pairs = links.slice(at, at + BATCH).flatMap(({ target, path }) => [target, path]);
      const argv = ["/bin/sh", "-c", MAKE_LINKS, "sh", ...pairs];
      const { code, stderr } = await site.processes.exec({ argv, cwd: site.home });
      if (code !== 0) throw new SubletError("failed", `cannot make symbolic links: ${stderr}`);
    }
  }
}

/** Of the inputs that are no longer what was put there. */
export interface ChangedInputs {
  /** What to say of a run that did it. */
  readonly message: string;
  /** Only shared copies have changed, which a job beside this one may have done. */
  readonly sharedOnly: boolean;
}

/** How the inputs in the checkout at `root` are no longer what was put there, or null when they are. */
export async function changedInputs(
  site: Site,
  root: string,
  placed: readonly Placed[],
): Promise<ChangedInputs | null> {
  const files = placed.reduce((sum, tree) => sum + tree.files, 0);
  if (files === 0) return null;
  if (await Deno.lstat(root).then(() => false, () => true)) {
    site.log.event("inputs.changed", { count: files, paths: [] });
    return { message: "it deleted its own checkout, with its linked inputs", sharedOnly: false };
  }
  let count = 0;
  let sharedOnly = true;
  const paths: string[] = [];
  for (const tree of placed) {
    for await (const { path, shared } of tree.changes()) {
      if (count++ < SHOWN) paths.push(path);
      if (!shared) sharedOnly = false;
    }
  }
  if (count === 0) return null;
  site.log.event("inputs.changed", { count, paths });
  const more = count > SHOWN ? ` and ${count - SHOWN} more` : "";
  return {
    message: `it changed its linked inputs, which are shared and read-only: ${
      paths.join(", ")
    }${more}`,
    sharedOnly,
  };
}
