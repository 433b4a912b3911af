/** @module The `git` provider: repositories of record as they are, and replicas of them on workers. */

import * as z from "zod";
import { isError, SubletError } from "../home/mod.ts";
import { cloneRepository } from "./clone.ts";
import type { Check, InitOptions, Part, Repository, Table, Vcs } from "./contract.ts";
import type { Tolerance } from "./fitness.ts";
import { Git, GitFailure } from "./git_call.ts";
import { identityOf } from "./identity.ts";
import { makeRepository, saveInit } from "./init.ts";
import { absolutePath } from "./names.ts";
import type { Place } from "./place.ts";
import { promptOf } from "./prompt.ts";
import { fields } from "./raw_path.ts";
import { GitReplica } from "./replica.ts";
import { GitRepository, type VcsPorts } from "./repository.ts";

/** The oldest git whose commands and options we use. */
const OLDEST = [2, 39] as const;

/** Keys of `[plugins.vcs]` of a campaign's file, and of a job's `artifact.vcs`. */
export const gitTable = z.object({
  provider: z.literal("git").default("git"),
  /** A commit with submodules is refused, or checked out with their directories empty. */
  submodules: z.enum(["refuse", "empty"]).default("refuse"),
  /** A commit with files in Git LFS is refused, or checked out with their pointers. */
  lfs: z.enum(["refuse", "pointers"]).default("refuse"),
});

interface Opened {
  readonly repository: GitRepository;
  /** Tells its git directory from one that was made anew at the same path. */
  readonly stamp: string;
}

/** Repositories of git. One object serves a process: it remembers what it has seen of each repository. */
export class GitVcs implements Vcs {
  readonly #git: Git;
  readonly #ports: VcsPorts;
  readonly #opened = new Map<string, Opened>();
  readonly #replicas = new Map<string, Promise<GitReplica>>();

  constructor(ports: VcsPorts) {
    this.#git = new Git(ports.processes);
    this.#ports = ports;
  }

  async open(at: string, table: Table = {}): Promise<Repository> {
    const path = absolutePath(at);
    const tolerance = toleranceOf(table);
    const before = this.#opened.get(path);
    if (before !== undefined && await stampOf(path) === before.stamp) {
      before.repository.tolerate(tolerance);
      return before.repository;
    }
    const place = await this.#find(path);
    const repository = new GitRepository(path, place, this.#git, this.#ports, tolerance);
    const stamp = await stampOf(path);
    if (stamp !== null) this.#opened.set(path, { repository, stamp });
    return repository;
  }

  async replica(at: string, table: Table = {}): Promise<Repository> {
    const path = absolutePath(at);
    const tolerance = toleranceOf(table);
    let opening = this.#replicas.get(path);
    if (opening === undefined) {
      opening = GitReplica.open(path, this.#git, this.#ports, tolerance);
      this.#replicas.set(path, opening);
      opening.catch(() => this.#replicas.delete(path));
    }
    const replica = await opening;
    replica.tolerate(tolerance);
    return replica;
  }

  async init(at: string, options: InitOptions): Promise<string[]> {
    const path = absolutePath(at);
    const found = await this.root(path);
    if (found === null) await makeRepository(this.#git, path);
    const root = found ?? path;
    const place = await this.#find(root);
    const repository = await this.open(root);
    const head = await repository.head().catch((error) => {
      if (isError(error, "not_found")) return null;
      throw error;
    });
    return await saveInit(this.#git, place, root, head?.revision ?? null, options);
  }

  async clone(url: string, at: string, credential: string | null = null): Promise<Repository> {
    const path = absolutePath(at);
    await cloneRepository(this.#git, this.#ports.ids, url, path, credential);
    return await this.open(path);
  }

  prompt(part: Part): string {
    return promptOf(part);
  }

  async identity(path: string): Promise<string> {
    const place = await this.#find(path);
    const listed = await this.#git.run({
      cwd: place.commonDir,
      gitDir: place.commonDir,
      args: ["config", "--null", "--get-regexp", "^remote\\..*\\.url$"],
      answers: [0, 1],
    });
    const remotes = new Map<string, string>();
    for (const entry of new TextDecoder().decode(listed.stdout).split("\0")) {
      const [key = "", url = ""] = entry.split("\n", 2);
      const name = key.replace(/^remote\./, "").replace(/\.url$/, "");
      if (url !== "" && !remotes.has(name)) remotes.set(name, url);
    }
    const url = remotes.get("origin") ?? [...remotes].sort()[0]?.[1];
    return (url === undefined ? null : identityOf(url)) ?? rootOf(place) ?? place.commonDir;
  }

  async root(path: string): Promise<string | null> {
    try {
      return rootOf(await this.#find(path));
    } catch (error) {
      if (error instanceof SubletError && error.code === "not_found") return null;
      throw error;
    }
  }

  async checks(): Promise<Check[]> {
    const name = "git";
    const install = `install git ${OLDEST.join(".")} or newer`;
    let said: string;
    try {
      said = (await this.#git.text({ cwd: "/", args: ["version"], timeoutMs: 10_000 })).trim();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return [{ name, ok: false, detail: `git does not run (${reason}): ${install}` }];
    }
    const [, major = "0", minor = "0"] = /(\d+)\.(\d+)/.exec(said) ?? [];
    const ok = Number(major) > OLDEST[0] ||
      (Number(major) === OLDEST[0] && Number(minor) >= OLDEST[1]);
    return [{ name, ok, detail: ok ? said : `${said} is too old: ${install}` }];
  }

  /** Where the repository of `path` is, and which of its settings would run programs. */
  async #find(path: string): Promise<Place> {
    const said = await this.#locate(absolutePath(path));
    const [gitDir = "", commonDir = "", format = ""] = said.split("\n");
    const settings = programsOff(
      fields(
        (await this.#git.run({
          cwd: commonDir,
          gitDir: commonDir,
          args: ["config", "--null", "--name-only", "--get-regexp", "^(filter|merge)\\..*\\."],
          answers: [0, 1],
        })).stdout,
      ),
    );
    return { gitDir, commonDir, format: format === "sha256" ? "sha256" : "sha1", settings };
  }

  async #locate(path: string): Promise<string> {
    const none = (cause: unknown) =>
      new SubletError(
        "not_found",
        `${path} is no checkout of a git repository. Run git init and commit there first`,
        { cause },
      );
    const isDirectory = await Deno.stat(path).then((found) => found.isDirectory, () => false);
    if (!isDirectory) throw none(undefined);
    try {
      return await this.#git.text({
        cwd: path,
        args: [
          "rev-parse",
          "--path-format=absolute",
          "--git-dir",
          "--git-common-dir",
          "--show-object-format",
        ],
      });
    } catch (error) {
      if (error instanceof GitFailure && /not a git repository/.test(error.stderr)) {
        throw none(error);
      }
      throw error;
    }
  }
}

function toleranceOf(table: Table): Tolerance {
  const read = gitTable.safeParse(table);
  if (read.success) return read.data;
  throw new SubletError(
    "invalid_request",
    `the table of the git provider is wrong: ${z.prettifyError(read.error)}. See [plugins.vcs]`,
  );
}

/** Settings that turn the programs off which the settings `keys` of a repository name. */
function programsOff(keys: readonly string[]): string[] {
  const settings = new Set<string>();
  for (const key of keys) {
    const [, kind, driver, name] = /^(filter|merge)\.([^=\n]*)\.([^.]+)$/s.exec(key) ?? [];
    if (kind === "merge" && name === "driver") settings.add(`merge.${driver}.driver=false`);
    else if (kind === "filter" && ["clean", "smudge", "process"].includes(name ?? "")) {
      for (const each of ["clean=", "smudge=", "process=", "required=false"]) {
        settings.add(`filter.${driver}.${each}`);
      }
    }
  }
  return [...settings];
}

/** The checkout that the common git directory of `place` is in, or null for a bare repository. */
function rootOf(place: Place): string | null {
  return place.commonDir.endsWith("/.git") ? place.commonDir.slice(0, -"/.git".length) : null;
}

/** What changes when another repository, or another configuration of it, is at `path`. */
async function stampOf(path: string): Promise<string | null> {
  const parts: string[] = [];
  for (const name of [`${path}/.git`, `${path}/.git/config`, `${path}/config`]) {
    try {
      const { dev, ino, mtime, isDirectory } = await Deno.stat(name);
      parts.push(`${dev}:${ino}:${isDirectory ? "" : mtime?.getTime()}`);
    } catch {
      parts.push("-");
    }
  }
  return parts.every((part) => part === "-") ? null : parts.join(" ");
}
