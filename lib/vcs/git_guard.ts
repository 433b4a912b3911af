/** @module Telling our own calls of git from any other, for whoever runs them for a caller that is not trusted. */

import { GIT_ENV, LEADING } from "./git_call.ts";

const SUBCOMMANDS: ReadonlySet<string> = new Set(
  ("cat-file config diff-files for-each-ref fsck hash-object index-pack init log ls-files ls-tree merge-base " +
    "merge-tree pack-objects pack-refs read-tree repack rev-list rev-parse update-index update-ref version write-tree")
    .split(" "),
);
/** Settings that a call may add: a fixed pace of syncing, and filters that are switched off. */
const SETTING =
  /^(core\.fsync=(none|default)|filter\.[^=\n]*\.(clean=|smudge=|process=|required=false)|merge\.[^=\n]*\.driver=false)$/;
/** Every option of our calls. None of them runs a program, or writes outside of the repository. */
const OPTION =
  /^(-[cdimnqrtuwz]|--(add|all|allow-unrelated-histories|bare|batch|batch-check=.*|count=\d+|delta-base-offset|end-of-options|exclude-standard|first-parent|fix-thin|force|force-remove|format=.*|full|geometric=2|get-regexp|git-common-dir|git-dir|ignore-submodules=all|index-info|initial-branch=main|is-ancestor|max-count=\d+|name-only|name-status|no-dangling|no-ext-diff|no-progress|no-reflogs|no-renames|null|object-format=\w+|others|path-format=absolute|prune|quiet|refresh|remove|replace|reset|revs|show-object-format|sort=-creatordate|stdin|stdout|strict=[\w,=-]*|strict|template=|thin|threads=1|write-tree)?)$/;

/** Why `argv` with `env` is no call of ours, or null when it is one. Paths are the caller's to judge: {@linkcode gitPaths}. */
export function foreignGitCall(
  argv: readonly string[],
  env: Readonly<Record<string, string>>,
): string | null {
  const names = Object.keys(env);
  const ours = names.length === Object.keys(GIT_ENV).length &&
    names.every((name) => env[name] === GIT_ENV[name]);
  if (!ours) return "its environment is not ours";
  if (!LEADING.every((word, at) => argv[at] === word)) return "it does not begin as ours do";
  let at = LEADING.length;
  for (; argv[at] === "-c"; at += 2) {
    if (!SETTING.test(argv[at + 1] ?? "")) return `the setting ${argv[at + 1]} is not ours`;
  }
  while (/^--(git-dir|work-tree)=/.test(argv[at] ?? "")) at++;
  const [command = "", ...args] = argv.slice(at);
  if (!SUBCOMMANDS.has(command)) return `git ${command} is not ours`;
  if (command === "config" && !args.includes("--get-regexp")) return "it would set something";
  // It would read a file, through a link too; what comes by stdin is judged where it comes from.
  if (command === "hash-object" && !/^-t (blob|commit) -w --stdin$/.test(args.join(" "))) {
    return "it would read a file";
  }
  const outside = args.find((each) => each.startsWith("/") || each.split("/").includes(".."));
  if (outside !== undefined) return `${outside} leads out of where it works`;
  const option = args.find((each) => each.startsWith("-") && !OPTION.test(each));
  return option === undefined ? null : `its option ${option} is not ours`;
}

/** The paths in `argv` that say where a call of ours works. */
export function gitPaths(argv: readonly string[]): string[] {
  const named = argv.slice(LEADING.length).map((word) =>
    /^--(?:git-dir|work-tree)=(.*)$/s.exec(word)?.[1]
  );
  return named.filter((path) => path !== undefined);
}
