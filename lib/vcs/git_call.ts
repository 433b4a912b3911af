/**
 * @module One call of the git binary: what it may read of its machine, and what a failure of it is. Git is run through
 * the `Processes` port alone, with no hook, no configuration but the repository's own, no network and no prompt.
 */

import { type ExecResult, type Processes, SubletError } from "../home/mod.ts";

/** The part of `Processes` that git is run through. It hands a helper its base allow-list of variables, and no other. */
export type Exec = Pick<Processes, "exec">;

/** Every variable of our git calls, beyond the base of {@linkcode Exec}. */
export const GIT_ENV: Readonly<Record<string, string>> = {
  GIT_ATTR_NOSYSTEM: "1",
  GIT_AUTHOR_EMAIL: "sublet@localhost",
  GIT_AUTHOR_NAME: "sublet",
  GIT_COMMITTER_EMAIL: "sublet@localhost",
  GIT_COMMITTER_NAME: "sublet",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_DEFAULT_REF_FORMAT: "files",
  GIT_LITERAL_PATHSPECS: "1",
  GIT_NO_REPLACE_OBJECTS: "1",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_TERMINAL_PROMPT: "0",
  LANGUAGE: "C",
  LC_ALL: "C",
};

/** Settings that hold over the repository's own. */
const SETTINGS = [
  // Runs nothing: no hook, no watcher, no background upkeep, no transport (a partial clone would dial its remote).
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "gc.auto=0",
  "maintenance.auto=false",
  "protocol.allow=never",
  "submodule.recurse=false",
  "log.showSignature=false",
  "commit.gpgSign=false",
  "merge.renormalize=false",
  // Files come out as they were saved, the same on every machine.
  "core.attributesFile=/dev/null",
  "core.excludesFile=/dev/null",
  "core.autocrlf=false",
  "core.sparseCheckout=false",
  "core.protectHFS=true",
  "core.protectNTFS=true",
  // The index is one plain file of version 2, which `index_file.ts` reads.
  "core.splitIndex=false",
  "core.untrackedCache=false",
  "feature.manyFiles=false",
  "index.sparse=false",
  "index.version=2",
  // Our refs are no history of a person, and wait for a lock that somebody holds for a moment.
  "core.logAllRefUpdates=false",
  "core.filesRefLockTimeout=1000",
  "core.packedRefsTimeout=10000",
  "i18n.logOutputEncoding=UTF-8",
  // The owner of a repository that we were told to open may be another user.
  "safe.directory=*",
].flatMap((setting) => ["-c", setting]);

/** How every call of ours begins. */
export const LEADING: readonly string[] = ["git", "--no-pager", ...SETTINGS];

/** A failed git call: `failed`, with its exit code and what it said. */
export class GitFailure extends SubletError {
  constructor(
    readonly exitCode: number,
    readonly stderr: string,
    message: string,
  ) {
    super("failed", message);
  }
}

/** The failure that git complained of `stderr` while it read the objects of `gitDir`. */
export function damagedStore(gitDir: string, stderr: string): GitFailure {
  return new GitFailure(128, stderr, `the objects of ${gitDir} cannot be read: ${said(stderr)}`);
}

/** A git call. */
export interface GitCall {
  /** The command and its arguments. */
  readonly args: readonly string[];
  readonly cwd: string;
  readonly gitDir?: string;
  readonly workTree?: string;
  /** More settings, as `key=value`. */
  readonly settings?: readonly string[];
  readonly stdin?: string | Uint8Array | { readonly path: string };
  readonly stdoutPath?: string;
  /** Milliseconds. Default 3,600,000: a first transfer of a large repository takes its time. */
  readonly timeoutMs?: number;
  /** Exit codes that are answers. Default: 0. */
  readonly answers?: readonly number[];
}

const HOUR = 3_600_000;

/** What git wrote to its stderr, fit for one message. */
function said(stderr: string): string {
  const lines = stderr.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const text = lines.slice(-6).join("; ");
  // deno-lint-ignore no-control-regex -- file names in it are anybody's
  return text.replace(/[\u0000-\u001f\u007f]/g, "?").slice(-2000);
}

/** Runs git. */
export class Git {
  readonly #exec: Exec;

  constructor(exec: Exec) {
    this.#exec = exec;
  }

  /** Run `call`; throws {@linkcode GitFailure} unless it exits with one of its answers. */
  async run(call: GitCall): Promise<ExecResult> {
    const { args, cwd, gitDir, workTree, settings = [], stdin, stdoutPath, answers = [0] } = call;
    const result = await this.#exec.exec({
      argv: [
        ...LEADING,
        ...settings.flatMap((setting) => ["-c", setting]),
        ...(gitDir === undefined ? [] : [`--git-dir=${gitDir}`]),
        ...(workTree === undefined ? [] : [`--work-tree=${workTree}`]),
        ...args,
      ],
      cwd,
      env: GIT_ENV,
      timeoutMs: call.timeoutMs ?? HOUR,
      ...(stdin === undefined
        ? {}
        : { stdin: typeof stdin === "string" ? new TextEncoder().encode(stdin) : stdin }),
      ...(stdoutPath === undefined ? {} : { stdoutPath }),
    });
    if (answers.includes(result.code)) return result;
    throw new GitFailure(
      result.code,
      result.stderr,
      `git ${args[0]} in ${gitDir ?? cwd} ended with ${result.code}: ${
        said(result.stderr) || "it said nothing"
      }`,
    );
  }

  /** Run `call`; its stdout as text. */
  async text(call: GitCall): Promise<string> {
    return new TextDecoder().decode((await this.run(call)).stdout);
  }
}
