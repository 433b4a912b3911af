/**
 * @module A git repository of many commits and files, made in seconds by `git fast-import` and always the same for the
 * same size, for benches and tests.
 */

import { GIT_ENV } from "../../lib/vcs/mod.ts";

/** How large it is to be. */
export interface LargeRepositoryOptions {
  /** Default 2,000. */
  readonly commits?: number;
  /** Files of the newest commit. Default 5,000. */
  readonly files?: number;
  /** Bytes of a file on average. Default 4,000: 20 MB of files. */
  readonly fileBytes?: number;
  /** Files that each commit changes. Default 3. */
  readonly changes?: number;
}

/** What was made. */
export interface LargeRepository {
  readonly path: string;
  /** The newest commit, on `main`. */
  readonly head: string;
}

const WORDS =
  "the of state lease worker result commit file time value index queue token number error".split(
    " ",
  );

/** Numbers that look random, the same each time. */
function* numbers(seed: number): Generator<number, never> {
  let state = seed;
  while (true) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state;
  }
}

/** Path of file `n`: forty to a directory, two levels deep. */
function pathOf(n: number): string {
  const directory = Math.floor(n / 40);
  return `src/part_${Math.floor(directory / 12)}/unit_${directory}/file_${n}.ts`;
}

/** The text of file `n` in its `version`: lines of words, of which a version changes some. */
function textOf(n: number, version: number, bytes: number): string {
  const next = numbers(n * 7919 + 1);
  const lines: string[] = [];
  for (let length = 0; length < bytes;) {
    const line = Array.from({ length: 8 }, () => WORDS[next.next().value % WORDS.length]).join(" ");
    lines.push(line);
    length += line.length + 1;
  }
  if (version > 0) lines[version % lines.length] = `changed in version ${version} of file ${n}`;
  return `${lines.join("\n")}\n`;
}

/** What `git fast-import` reads: a commit with most files, then those that change some and add the rest. */
function* history(options: Required<LargeRepositoryOptions>): Generator<string> {
  const { commits, files, fileBytes, changes } = options;
  const pick = numbers(42);
  const first = commits === 1 ? files : Math.max(1, Math.floor(files * 0.6));
  const versions = new Map<number, number>();
  let there = 0;
  const put = (n: number): string => {
    const version = versions.get(n) ?? 0;
    versions.set(n, version + 1);
    const text = textOf(n, version, fileBytes / 2 + (n * 37) % fileBytes);
    // Words alone: a character is a byte.
    return `M 100644 inline ${pathOf(n)}\ndata ${text.length}\n${text}\n`;
  };
  for (let commit = 0; commit < commits; commit++) {
    const message = `Commit ${commit}\n`;
    const when = 1_600_000_000 + commit * 3600;
    yield `commit refs/heads/main\nmark :${
      commit + 1
    }\ncommitter Ada <ada@example.org> ${when} +0000\n` +
      `data ${message.length}\n${message}`;
    if (commit > 0) yield `from :${commit}\n`;
    const until = commit === 0
      ? first
      : Math.min(files, first + Math.ceil((files - first) * commit / (commits - 1)));
    for (; there < until; there++) yield put(there);
    const changed = new Set<number>();
    if (commit > 0) { for (let i = 0; i < changes; i++) changed.add(pick.next().value % there); }
    for (const n of changed) yield put(n);
    yield "\n";
  }
  yield "done\n";
}

async function git(
  cwd: string,
  args: string[],
  stdin?: ReadableStream<Uint8Array>,
): Promise<string> {
  const child = new Deno.Command("git", {
    args,
    cwd,
    env: { ...GIT_ENV },
    stdin: stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const [output] = await Promise.all([child.output(), stdin?.pipeTo(child.stdin)]);
  const text = new TextDecoder();
  if (!output.success) throw new Error(`git ${args[0]}: ${text.decode(output.stderr)}`);
  return text.decode(output.stdout).trim();
}

/** Make such a repository at `path`, with its newest files checked out. */
export async function makeLargeRepository(
  path: string,
  options: LargeRepositoryOptions = {},
): Promise<LargeRepository> {
  const { commits = 2000, files = 5000, fileBytes = 4000, changes = 3 } = options;
  await Deno.mkdir(path, { recursive: true });
  await git(path, ["init", "-q", "-b", "main"]);
  const source = ReadableStream.from(batches(history({ commits, files, fileBytes, changes })));
  await git(path, ["fast-import", "--quiet", "--done"], source);
  await git(path, ["reset", "-q", "--hard", "main"]);
  return { path, head: await git(path, ["rev-parse", "main"]) };
}

/** The pieces of `parts`, some hundred kilobytes each. */
function* batches(parts: Iterable<string>): Generator<Uint8Array> {
  const encoder = new TextEncoder();
  let pending: string[] = [];
  let length = 0;
  for (const part of parts) {
    pending.push(part);
    length += part.length;
    if (length < 256 * 1024) continue;
    yield encoder.encode(pending.join(""));
    pending = [];
    length = 0;
  }
  yield encoder.encode(pending.join(""));
}
