/** @module What an agent did to its copy of the shared workspace: the files that it wrote, and those that it removed. */

import { join } from "node:path";
import {
  changedPaths,
  type Cid,
  each,
  type FileEntry,
  isLink,
  type Placed,
  sameBlob,
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
  { site, inputs, job, place }: AgentContext,
  placed: Placed | null,
): Promise<WorkspaceChanges> {
  const leftOut = new LeftOut();
  const { workspace } = job.artifact;
  if (workspace === null) return { changes: {}, leftOut };
  const manifest = await inputs.manifests.read(workspace.manifest);
  const before = new Map<string, FileEntry>();
  const links = new Set<string>();
  for (const entry of manifest.entries) {
    if (isLink(entry)) links.add(entry.path);
    else before.set(entry.path, entry);
  }
  const same = placed === null ? new Set<string>() : await unchanged(placed);
  const { files, shut } = await list(join(place.worktree, WORKSPACE), links, leftOut);
  const changes = new Map<string, Cid | null>();
  for (const path of before.keys()) {
    const unknown = files.size >= MAX_FILES || shut.some((directory) => path.startsWith(directory));
    if (!files.has(path) && !unknown) changes.set(path, null);
  }
  const read = [...files].filter((path) => !same.has(path));
  await each(read, WIDTH, async (path) => {
    const was = before.get(path);
    try {
      await using file = await openBeneath(place.worktree, `${WORKSPACE}/${path}`, {
        what: "a file of the workspace",
      });
      const blob = await site.cas.putStream(file.stream());
      if (was === undefined || !sameBlob(was.blob, blob)) changes.set(path, blob);
    } catch (error) {
      // It is no plain file any more, or more than the store takes.
      if (!isError(error, "not_found", "unsafe_path", "too_large")) throw error;
      leftOut.add(path, messageOf(error));
    }
  });
  const sorted = [...changes].sort(([a], [b]) => a < b ? -1 : 1);
  return { changes: Object.fromEntries(sorted), leftOut };
}

/** Paths of the workspace that are as they were put there. */
async function unchanged(placed: Placed): Promise<Set<string>> {
  const changed = new Set((await changedPaths(placed)).map(({ path }) => path));
  const same = placed.files.filter(({ path }) => !changed.has(path));
  return new Set(same.map(({ path }) => path.slice(WORKSPACE.length + 1)));
}

/** What is in a workspace. */
interface Found {
  readonly files: ReadonlySet<string>;
  /** Directories that cannot be looked into, with a slash: nobody knows what is in them. */
  readonly shut: readonly string[];
}

/**
 * The regular files beneath `root`, by safe paths. Empty directories are passed over, as are `links`, which were there;
 * other links and special files are left out by name.
 */
async function list(
  root: string,
  links: ReadonlySet<string>,
  leftOut: LeftOut,
): Promise<Found> {
  const files = new Set<string>();
  const shut: string[] = [];
  const info = await Deno.lstat(root).catch(() => null);
  if (info === null) return { files, shut };
  const directories = [""];
  for (const directory of directories) {
    const names = info.isDirectory ? await entriesOf(join(root, directory)) : null;
    if (names === null) {
      leftOut.add(directory === "" ? "." : directory, "it is no directory that can be read");
      shut.push(directory === "" ? "" : `${directory}/`);
      continue;
    }
    for (const entry of names) {
      const path = directory === "" ? entry.name : `${directory}/${entry.name}`;
      if (!entry.isFile && !entry.isDirectory) {
        if (!links.has(path)) leftOut.add(path, NO_FILE);
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
  return { files, shut };
}

async function entriesOf(path: string): Promise<Deno.DirEntry[] | null> {
  try {
    return await Array.fromAsync(Deno.readDir(path));
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return null;
    throw error;
  }
}
