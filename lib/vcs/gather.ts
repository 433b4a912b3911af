/** @module Making a tree of the files of a checkout as they are, however odd, and naming those that cannot be taken. */

import { messageOf } from "../home/mod.ts";
import type { LeftOut } from "./contract.ts";
import { type Git, GitFailure } from "./git_call.ts";
import { indexEntries } from "./index_file.ts";
import { isContentFault } from "./jail.ts";
import { onPlace, type Place } from "./place.ts";
import { fields, openable, rawBytes, type RawPath, rawPath, shown } from "./raw_path.ts";
import { asInput, differenceOf, isIgnored, type Judged, judgeFile, namedIn } from "./work_files.ts";

/** Bounds of what is taken. */
export interface GatherLimits {
  readonly maxFileBytes: number;
  readonly maxBytes: number;
  readonly maxFiles: number;
}

/** A linked worktree of the job's repository, found within its checkout. */
export interface FoundWorktree {
  readonly name: string;
  readonly path: string;
}

const MAX_NAMED = 1000;
/** How deep repositories within repositories are looked into, and how many of them. */
const MAX_DEPTH = 4;
const MAX_NESTED = 200;
/** Paths that one call of git takes in: when one of them fails, the others of its call are read again. */
const BATCH = 5000;

/** More of git's stderr than this may have been cut. */
const MAX_STDERR = 60_000;

const zeros = (place: Place) => "0".repeat(place.format === "sha256" ? 64 : 40);

/** Takes the files of one checkout into a jail. */
export class Gatherer {
  readonly leftOut: LeftOut[] = [];
  leftOutCount = 0;
  readonly notes = new Set<string>();
  readonly worktrees: FoundWorktree[] = [];
  readonly #git: Git;
  readonly #jail: Place;
  readonly #jobDir: string | null;
  readonly #limits: GatherLimits;
  #bytes = 0;
  #files = 0;
  #nested = 0;

  /** `jobDir`: the git directory of the job, whose linked worktrees are told from foreign repositories. */
  constructor(git: Git, jail: Place, jobDir: string | null, limits: GatherLimits) {
    this.#git = git;
    this.#jail = jail;
    this.#jobDir = jobDir;
    this.#limits = limits;
  }

  /**
   * The tree of `workTree`, or null when it is as the index of the jail, from which it starts. Paths of `ignored` stay
   * as the index has them, and so do the submodules of `submodules`.
   */
  async tree(
    workTree: string,
    ignored: ReadonlySet<RawPath>,
    submodules: ReadonlySet<string>,
  ): Promise<string | null> {
    return await this.#tree(
      { at: this.#jail, workTree, prefix: "", depth: 0, submodules },
      ignored,
    );
  }

  /** The tree of `workTree`, which starts from `revision`: a linked worktree of the job. */
  async treeFrom(revision: string, workTree: string): Promise<string | null> {
    const at = await this.#inner();
    await onPlace(this.#git, at, { gitDir: at.gitDir, args: ["read-tree", revision] });
    const submodules = await this.#links(at);
    const prefix = `${rawPath(workTree)}/`;
    return await this.#tree({ at, workTree, prefix, depth: 1, submodules }, new Set());
  }

  async #tree(site: GatherSite, ignored: ReadonlySet<RawPath>): Promise<string | null> {
    const { at, workTree, prefix, submodules } = site;
    const found = await differenceOf(this.#git, at, workTree);
    // The excludes are the checkout's own: a repository within has others.
    if (site.depth === 0) await Deno.writeTextFile(`${at.commonDir}/info/exclude`, "");
    const mine = (paths: readonly RawPath[]) => paths.filter((path) => !isIgnored(path, ignored));
    for (const { path, reason } of found.unreadable) this.leave(prefix + rawPath(path), reason);
    const [removed, changed, nested] = [found.removed, found.changed, found.nested].map(mine);
    await this.#remove(site, removed ?? []);
    await this.#take(site, changed ?? []);
    for (const path of nested ?? []) await this.#fold(site, path, false);
    let touched = [removed, changed, nested].some((paths) => (paths ?? []).length > 0);
    for (const link of await this.#links(at)) {
      const path = rawPath(link);
      if (isIgnored(path, ignored)) continue;
      if (submodules.has(link)) await this.#judgeSubmodule(site, link);
      else touched = await this.#fold(site, path, true) || touched;
    }
    if (!touched) return null;
    const written = await onPlace(this.#git, at, { gitDir: at.gitDir, args: ["write-tree"] });
    return new TextDecoder().decode(written.stdout).trim();
  }

  /** Name `path` as one that could not be taken. */
  leave(path: RawPath, reason: string): void {
    this.leftOutCount++;
    if (this.leftOut.length < MAX_NAMED) this.leftOut.push({ path: shown(path), reason });
  }

  async #remove({ at, workTree }: GatherSite, paths: readonly RawPath[]): Promise<void> {
    if (paths.length === 0) return;
    await onPlace(this.#git, at, {
      gitDir: at.gitDir,
      workTree,
      cwd: workTree,
      args: ["update-index", "-z", "--force-remove", "--stdin"],
      stdin: asInput(paths),
    });
  }

  async #take(site: GatherSite, paths: readonly RawPath[]): Promise<void> {
    // Each call writes the whole index.
    const batch = Math.max(BATCH, Math.ceil(paths.length / 10));
    for (let from = 0; from < paths.length; from += batch) {
      const judged: Judged[] = [];
      for (let at = from; at < Math.min(paths.length, from + batch); at += 200) {
        const some = paths.slice(at, Math.min(at + 200, from + batch));
        judged.push(...await Promise.all(some.map((path) => judgeFile(site.workTree, path))));
      }
      await this.#add(site, judged.filter((each) => this.#allows(site, each)));
    }
  }

  #allows({ prefix }: GatherSite, { path, size, refused }: Judged): boolean {
    const { maxFileBytes, maxBytes, maxFiles } = this.#limits;
    const reason = refused ??
      (size > maxFileBytes
        ? `it has ${size} bytes: unsaved files of over ${maxFileBytes} are not taken`
        : this.#bytes + size > maxBytes
        ? `unsaved files of over ${maxBytes} bytes together are not taken`
        : this.#files >= maxFiles
        ? `over ${maxFiles} unsaved files are not taken`
        : null);
    if (reason === null) {
      this.#bytes += size;
      this.#files++;
    } else this.leave(prefix + path, reason);
    return reason === null;
  }

  /** Take `files` into the index; of those that git does not take, each by itself. */
  async #add(site: GatherSite, files: readonly Judged[]): Promise<void> {
    if (files.length === 0) return;
    const { at, workTree } = site;
    const paths = files.map(({ path }) => path);
    try {
      const { stderr } = await onPlace(this.#git, at, {
        gitDir: at.gitDir,
        workTree,
        cwd: workTree,
        args: ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"],
        stdin: asInput(paths),
      });
      await this.#nameRefused(site, files, stderr);
    } catch (error) {
      if (!(error instanceof GitFailure) || !isContentFault(error)) throw error;
      const [only] = files;
      if (files.length === 1 && only !== undefined) return await this.#addAsIs(site, only, error);
      const named = namedIn(error.stderr, paths);
      const half = named === null ? Math.ceil(files.length / 2) : paths.indexOf(named);
      await this.#add(site, files.slice(0, half));
      await this.#add(site, named === null ? [] : files.slice(half, half + 1));
      await this.#add(site, files.slice(named === null ? half : half + 1));
    }
  }

  /** Name those of `files` that git passed over for their names. */
  async #nameRefused(site: GatherSite, files: readonly Judged[], stderr: string): Promise<void> {
    if (!stderr.includes("Ignoring path")) return;
    const half = Math.ceil(files.length / 2);
    if (stderr.length >= MAX_STDERR && files.length > 1) {
      // Its beginning is not there any more.
      await this.#add(site, files.slice(0, half));
      return await this.#add(site, files.slice(half));
    }
    const refused = new Set(
      Array.from(stderr.matchAll(/^Ignoring path (.*)$/gm), ([, name]) => name),
    );
    for (const { path } of files) {
      if (!refused.has(shown(path))) continue;
      this.leave(site.prefix + path, "git takes no such name: it could stand for .git");
    }
  }

  /** Take a file's bytes as they are, where the checkout's attributes ask for what cannot be done with them. */
  async #addAsIs(site: GatherSite, { path }: Judged, cause: GitFailure): Promise<void> {
    const { at, workTree, prefix } = site;
    const name = openable(path);
    try {
      if (name === null) throw cause;
      const info = await Deno.lstat(`${workTree}/${name}`);
      if (!info.isFile) throw cause;
      const hashed = await onPlace(this.#git, at, {
        gitDir: at.gitDir,
        args: ["hash-object", "-t", "blob", "-w", "--stdin"],
        stdin: { path: `${workTree}/${name}` },
      });
      const id = new TextDecoder().decode(hashed.stdout).trim();
      const mode = ((info.mode ?? 0) & 0o100) === 0 ? "100644" : "100755";
      await this.#setEntries(at, [`${mode} ${id}\t${path}`]);
    } catch (error) {
      if (error instanceof GitFailure && !isContentFault(error)) throw error;
      const said = cause.stderr.split("\n").find((line) => /^(error|fatal): /.test(line));
      this.leave(prefix + path, `git does not take it: ${said ?? messageOf(cause)}`);
    }
  }

  /** Set entries of the index, as `ls-tree` writes them. */
  async #setEntries(at: Place, entries: readonly string[]): Promise<void> {
    if (entries.length === 0) return;
    await onPlace(this.#git, at, {
      gitDir: at.gitDir,
      args: ["update-index", "-z", "--add", "--replace", "--index-info"],
      stdin: rawBytes(entries.map((entry) => `${entry}\0`).join("")),
    });
  }

  /** Take the files of a repository that the job made or cloned within its checkout, without its history; whether any. */
  async #fold(site: GatherSite, path: RawPath, linked: boolean): Promise<boolean> {
    const { at, workTree, prefix, depth } = site;
    const name = openable(path);
    if (name === null || depth >= MAX_DEPTH || this.#nested >= MAX_NESTED) {
      this.leave(prefix + path, "a repository within the checkout, too deep or one of too many");
      return false;
    }
    const inner = `${workTree}/${name}`;
    const isDirectory = await Deno.lstat(inner).then((info) => info.isDirectory, () => false);
    if (!isDirectory || (await Array.fromAsync(Deno.readDir(inner))).length === 0) {
      if (linked) {
        this.leave(prefix + path, "a submodule that is not there: its files are not carried");
      }
      return false;
    }
    const worktree = await this.#worktreeName(inner);
    if (worktree !== null) {
      this.worktrees.push({ name: worktree, path: inner });
      return false;
    }
    const sub = await this.#inner();
    const tree = await this.#tree({
      at: sub,
      workTree: inner,
      prefix: `${prefix}${path}/`,
      depth: depth + 1,
      submodules: new Set(),
    }, new Set());
    const listed = tree === null
      ? new Uint8Array()
      : (await onPlace(this.#git, at, { args: ["ls-tree", "-r", "-z", tree] })).stdout;
    const entries = fields(listed).map((entry) => entry.replace("\t", `\t${path}/`));
    await this.#setEntries(at, [...(linked ? [`0 ${zeros(at)}\t${path}`] : []), ...entries]);
    this.notes.add(
      `${
        JSON.stringify(shown(prefix + path))
      } is a repository of its own: its files are saved, its history is not`,
    );
    return true;
  }

  /** An empty index beside the jail's own. */
  async #inner(): Promise<Place> {
    const gitDir = `${this.#jail.commonDir}/worktrees/${this.#nested++}`;
    await Deno.mkdir(gitDir, { recursive: true });
    await Deno.writeTextFile(`${gitDir}/HEAD`, "ref: refs/heads/none\n");
    await Deno.writeTextFile(`${gitDir}/commondir`, "../..\n");
    return { ...this.#jail, gitDir };
  }

  /** The submodules that the index of `at` holds. */
  async #links(at: Place): Promise<Set<string>> {
    const links = new Set<string>();
    let bytes: Uint8Array;
    try {
      bytes = await Deno.readFile(`${at.gitDir}/index`);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return links;
      throw error;
    }
    for (const entry of indexEntries(bytes, at.format)) if (entry.submodule) links.add(entry.path);
    return links;
  }

  /** The name of the job's linked worktree that `path` is, or null. */
  async #worktreeName(path: string): Promise<string | null> {
    if (this.#jobDir === null) return null;
    const link = `${path}/.git`;
    const { isFile, size } = await Deno.lstat(link);
    if (!isFile || size > 4096) return null;
    const leads = /^gitdir: (.*)\/worktrees\/([^/\n]+)\n?$/.exec(await Deno.readTextFile(link));
    const [, gitDir = "", name = ""] = leads ?? [];
    if (gitDir !== this.#jobDir && gitDir !== await Deno.realPath(this.#jobDir)) return null;
    return name;
  }

  /** A submodule of the base: its directory should be empty, or as its own history has it. */
  async #judgeSubmodule({ workTree, prefix }: GatherSite, path: string): Promise<void> {
    const there = await Deno.lstat(`${workTree}/${path}`).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return null;
      throw error;
    });
    if (there === null || !there.isDirectory) return;
    for await (const _ of Deno.readDir(`${workTree}/${path}`)) {
      return this.leave(prefix + rawPath(path), "files in a submodule's directory are not carried");
    }
  }
}

/** Where files are taken from, and into which index. */
interface GatherSite {
  readonly at: Place;
  readonly workTree: string;
  /** What comes before its paths, for messages. */
  readonly prefix: RawPath;
  readonly depth: number;
  readonly submodules: ReadonlySet<string>;
}
