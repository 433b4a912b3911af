/** @module What an agent did to its copy of the shared workspace: the files that it wrote, and those that it removed. */

import { join } from "node:path";
import {
  type Cid,
  each,
  isLink,
  type Placed,
  sameBlob,
  type State,
  type Tree,
} from "../cas/mod.ts";
import { isError, messageOf, openBeneath, unsafeReason } from "../home/mod.ts";
import { type AgentContext, WORKSPACE } from "./agent_context.ts";
import { LeftOut } from "./run_logs.ts";

/** Files that are stored at once. */
const WIDTH = 8;
/** More files of a workspace than this do not come back. */
const MAX_FILES = 100_000;

const NO_FILE = "it is a link or a special file, and agents share files alone";

/** The difference, by path in the workspace: the new content, or null for a file that is gone. */
export interface WorkspaceChanges {
  readonly changes: Readonly<Record<string, Cid | null>>;
  readonly leftOut: LeftOut;
}

/**
 * What the agent changed. `placed`: how the files were put there; null when an earlier process of the worker did that,
 * so that each is read.
 */
export async function workspaceChanges(
  context: AgentContext,
  placed: Placed | null,
): Promise<WorkspaceChanges> {
  const { inputs, job, place } = context;
  const leftOut = new LeftOut();
  const { workspace } = job.artifact;
  if (workspace === null) return { changes: {}, leftOut };
  const found = await list(join(place.worktree, WORKSPACE), leftOut);
  const full = found.files.size >= MAX_FILES;
  const changes = new Map<string, Cid | null>();
  const before = placed?.states() ?? entriesOf(await inputs.manifests.open(workspace.manifest));
  for await (const batch of before) {
    await each(batch, WIDTH, async ({ entry, now }) => {
      const { path } = entry;
      // It is no file, and was none before.
      if (isLink(entry)) return void found.others.delete(path);
      const unknown = full || found.shut.some((directory) => path.startsWith(directory));
      if (!found.files.delete(path)) return void (unknown || changes.set(path, null));
      if (now === "same") return;
      const blob = await read(context, path, leftOut);
      if (blob !== null && !sameBlob(entry.blob, blob)) changes.set(path, blob);
    });
  }
  for (const path of found.others) leftOut.add(path, NO_FILE);
  await each(found.files, WIDTH, async (path) => {
    const blob = await read(context, path, leftOut);
    if (blob !== null) changes.set(path, blob);
  });
  const sorted = [...changes].sort(([a], [b]) => a < b ? -1 : 1);
  return { changes: Object.fromEntries(sorted), leftOut };
}

/** What is in a manifest, of which nobody knows how it was put in place. */
async function* entriesOf(tree: Tree): AsyncGenerator<Pick<State, "entry" | "now">[]> {
  for await (const batch of tree.batches()) yield batch.map((entry) => ({ entry, now: null }));
}

/** Store a file of the workspace; null when it is left out: it is no plain file, or more than the store takes. */
async function read(
  { site, place }: AgentContext,
  path: string,
  leftOut: LeftOut,
): Promise<Cid | null> {
  try {
    await using file = await openBeneath(place.worktree, `${WORKSPACE}/${path}`, {
      what: "a file of the workspace",
    });
    return await site.cas.putStream(file.stream());
  } catch (error) {
    if (!isError(error, "not_found", "unsafe_path", "too_large")) throw error;
    leftOut.add(path, messageOf(error));
    return null;
  }
}

/** What is in a workspace. */
interface Found {
  readonly files: Set<string>;
  /** Links and special files. */
  readonly others: Set<string>;
  /** Directories that cannot be looked into, with a slash: nobody knows what is in them. */
  readonly shut: readonly string[];
}

/** What is beneath `root`, by safe paths. Empty directories are passed over. */
async function list(root: string, leftOut: LeftOut): Promise<Found> {
  const files = new Set<string>();
  const others = new Set<string>();
  const shut: string[] = [];
  const info = await Deno.lstat(root).catch(() => null);
  if (info === null) return { files, others, shut };
  const directories = [""];
  for (const directory of directories) {
    const names = info.isDirectory ? await namesIn(join(root, directory)) : null;
    if (names === null) {
      leftOut.add(directory === "" ? "." : directory, "it is no directory that can be read");
      shut.push(directory === "" ? "" : `${directory}/`);
      continue;
    }
    for (const entry of names) {
      const path = directory === "" ? entry.name : `${directory}/${entry.name}`;
      if (!entry.isFile && !entry.isDirectory) {
        if (others.size < MAX_FILES) others.add(path);
        else leftOut.add(path, NO_FILE);
        continue;
      }
      const reason = unsafeReason(path) ??
        (path === "__proto__" ? "no report can hold that name" : null) ??
        (files.size >= MAX_FILES ? "there are too many" : null);
      if (reason !== null) leftOut.add(path, reason);
      else if (entry.isDirectory) directories.push(path);
      else files.add(path);
    }
  }
  return { files, others, shut };
}

async function namesIn(path: string): Promise<Deno.DirEntry[] | null> {
  try {
    return await Array.fromAsync(Deno.readDir(path));
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return null;
    throw error;
  }
}
