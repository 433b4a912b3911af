/** @module How a job's process starts: in a session of its own, its output straight into files, so that it outlives us. */

import { delimiter, isAbsolute, join } from "node:path";
import { messageOf, type Outlives, SubletError } from "../../home/mod.ts";
import { LINUX, processAt, processOf } from "./process_table.ts";

/** What to start. */
export interface Launch {
  readonly argv: readonly string[];
  readonly cwd: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Files to make. It is a failure when one is there already. */
  readonly stdout: string;
  readonly stderr: string;
  readonly outlives?: Outlives;
  /** Directory of the control group that it is to be in, as far as that can be made. */
  readonly group: string | null;
}

/** A process that was started. */
export interface Launched {
  readonly pid: number;
  readonly startTime: number | null;
  readonly status: Promise<Deno.CommandStatus>;
}

/** The shell says who it is, and joins its control group. */
const BEGIN = `if read -r stat </proc/$$/stat; then printf '%s\\n' "$stat"; fi 2>/dev/null
if [ -n "$group" ] && mkdir -p "$group"; then echo $$ >"$group/cgroup.procs"; fi 2>/dev/null
set -C
`;

/**
 * The shell makes the files, and becomes the command. What it has to say until then goes to the pipes that end there:
 * nothing of the job ever holds them.
 */
const SCRIPT = `out=$1 err=$2 group=$3
shift 3
${BEGIN}exec "$@" >"$out" 2>"$err"
`;

/**
 * The shell stays, to write down how the command ended when nobody else is there to see it, and to end it when its time
 * is over. A signal for the whole group is the command's to obey: the shell outlasts it. It calls its watchdog off by a
 * signal that it does not trap itself: one that it does is lost on a subshell which has only just begun.
 */
const OUTLIVING = `out=$1 err=$2 group=$3 exit=$4 seconds=$5
shift 5
${BEGIN}exec >"$out" 2>"$err"
trap : TERM INT HUP
(
  trap 'kill "$!"; exit 0' USR1
  sleep "$seconds" &
  wait "$!" && kill -KILL 0
) >/dev/null 2>&1 &
watch=$!
"$@"
code=$?
kill -USR1 "$watch" 2>/dev/null
echo "$code" >"$exit"
exit "$code"
`;

/** Start `launch`. Throws `failed`, with the reason. */
export async function launchProcess(launch: Launch): Promise<Launched> {
  const { argv, cwd, env, stdout, stderr, outlives, group } = launch;
  const files = [stdout, stderr, group ?? ""];
  if (Deno.build.os === "windows") {
    throw new SubletError("failed", "jobs run on Linux and macOS only: use a worker there");
  }
  await checkProgram(argv[0] ?? "", cwd, env["PATH"] ?? "");
  const child = outlives === undefined
    ? spawn(SCRIPT, [...files, ...argv], cwd, env)
    : spawn(OUTLIVING, [...files, ...outliving(outlives), ...argv], cwd, env);
  const [said, complaint] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if (complaint !== "") {
    await child.status;
    throw new SubletError("failed", `${argv[0]} could not start: ${complaint.trim()}`);
  }
  const stat = said !== "" ? await processOf(said) : LINUX ? null : await processAt(child.pid);
  return { pid: child.pid, startTime: stat?.startTime ?? null, status: child.status };
}

function outliving({ exit, seconds }: Outlives): string[] {
  return [exit, String(Math.ceil(seconds))];
}

function spawn(
  script: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>>,
) {
  try {
    return new Deno.Command("/bin/sh", {
      args: ["-c", script, "sh", ...args],
      cwd,
      env,
      clearEnv: true,
      detached: true,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (cause) {
    throw new SubletError("failed", `a process could not start: ${messageOf(cause)}`, { cause });
  }
}

/** Say which program or directory is not there, which no exit code would. */
async function checkProgram(program: string, cwd: string, path: string): Promise<void> {
  const there = await Deno.stat(cwd).catch(() => null);
  if (there === null || !there.isDirectory) {
    throw new SubletError("failed", `there is no directory ${cwd} to run ${program} in`);
  }
  const places = program.includes("/")
    ? [isAbsolute(program) ? program : join(cwd, program)]
    : path.split(delimiter).map((dir) => join(dir === "" ? cwd : dir, program));
  let found = false;
  for (const place of program === "" ? [] : places) {
    const info = await Deno.stat(place).catch(() => null);
    if (info === null || !info.isFile) continue;
    if (((info.mode ?? 0o111) & 0o111) !== 0) return;
    found = true;
  }
  throw new SubletError(
    "failed",
    found
      ? `${program} may not be run: it is not executable`
      : `there is no program ${JSON.stringify(program)}` +
        (program.includes("/") ? "" : ` on PATH (${path})`),
  );
}
