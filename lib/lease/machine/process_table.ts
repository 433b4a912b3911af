/**
 * @module The processes of this machine: who lives, in which group, since when, and with which job's tag.
 *
 * It asks `grep` and `ps` rather than reading `/proc` itself: a supervisor that gave up its other permissions
 * may still run programs, but no longer read there.
 */

import { SubletError } from "../../home/mod.ts";
import { TAG } from "./job_env.ts";
import { kernelFile } from "./kernel_file.ts";

/** A process. */
export interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Ended, and only not yet collected by its parent. */
  readonly zombie: boolean;
  /** Seconds since 1970, or null when it cannot be known. */
  readonly startTime: number | null;
}

/** What the kernel counts `starttime` in for user space: 100 a second on every Linux of today. */
const TICKS = 100;
export const LINUX = Deno.build.os === "linux";
const latin1 = new TextDecoder("latin1");

/** The stdout of a helper, whatever it exits with. */
export async function ask(program: string, ...args: string[]): Promise<string> {
  const command = new Deno.Command(program, {
    args,
    clearEnv: true,
    env: {
      PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
      LC_ALL: "C",
      QUOTING_STYLE: "escape",
    },
    stdin: "null",
    stderr: "null",
  });
  try {
    return latin1.decode((await command.output()).stdout);
  } catch (cause) {
    throw new SubletError("failed", `${program} is needed to look at processes: install it`, {
      cause,
    });
  }
}

let bootTime: Promise<number | null> | null = null;

/** When the machine started, seconds since 1970, as it was when first asked: a clock that is set moves it. */
async function booted(): Promise<number | null> {
  bootTime ??= kernelFile("/proc/stat").then((text) => {
    const seconds = /^btime (\d+)$/m.exec(text ?? "")?.[1];
    return seconds === undefined ? null : Number(seconds);
  });
  return await bootTime;
}

/**
 * The process that a line of `/proc/<pid>/stat` is of. A process names itself as it likes, so the fields count from the
 * last parenthesis.
 */
export function parseStat(line: string, boot: number | null): Process | null {
  const close = line.lastIndexOf(")");
  const pid = Number(/^(\d+) \(/.exec(line)?.[1]);
  const [state, parent, group, , , , , , , , , , , , , , , , , start] = line.slice(close + 2).split(
    " ",
  );
  if (close < 0 || !Number.isInteger(pid) || start === undefined) return null;
  return {
    pid,
    parent: Number(parent),
    group: Number(group),
    zombie: state === "Z" || state === "X",
    startTime: boot === null ? null : boot + Number(start) / TICKS,
  };
}

/** The process that a line of `ps -o pid=,ppid=,pgid=,stat=,lstart=` is of. */
export function parsePs(line: string): Process | null {
  const [, pid, parent, group, state, start] =
    /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.+?)\s*$/.exec(line) ?? [];
  if (pid === undefined || start === undefined) return null;
  const at = Date.parse(start);
  return {
    pid: Number(pid),
    parent: Number(parent),
    group: Number(group),
    zombie: state?.startsWith("Z") ?? false,
    startTime: Number.isNaN(at) ? null : at / 1000,
  };
}

/** Where a process stands whose `stat` line a shell has read. */
export async function processOf(stat: string): Promise<Process | null> {
  return parseStat(stat, await booted());
}

/** The process `pid`, or null when there is none. */
export async function processAt(pid: number): Promise<Process | null> {
  if (LINUX) return processOf(await kernelFile(`/proc/${pid}/stat`) ?? "");
  return parsePs(await ask("ps", "-o", "pid=,ppid=,pgid=,stat=,lstart=", "-p", String(pid)));
}

/** The living processes of the group `group`. */
export async function groupMembers(group: number): Promise<Process[]> {
  return (await allProcesses()).filter((each) => each.group === group && !each.zombie);
}

/**
 * What the living members of the group `group` started, and what that started, as far as the line from parent to child
 * is whole: also what is in another group or session, and carries no tag.
 */
export async function descendants(group: number): Promise<Process[]> {
  const all = (await allProcesses()).filter((each) => !each.zombie);
  const kin = new Set(all.filter((each) => each.group === group).map(({ pid }) => pid));
  const found: Process[] = [];
  for (let before = -1; before < found.length;) {
    before = found.length;
    for (const each of all) {
      if (kin.has(each.pid) || !kin.has(each.parent) || each.pid === Deno.pid) continue;
      kin.add(each.pid);
      found.push(each);
    }
  }
  return found;
}

async function allProcesses(): Promise<Process[]> {
  return LINUX ? await allOfLinux() : await allOfPs();
}

async function allOfLinux(): Promise<Process[]> {
  const text = await ask("/bin/sh", "-c", "exec grep -Hs '' /proc/[0-9]*/stat");
  const boot = await booted();
  // A name with a newline in it makes more lines, which all carry their process's own file name.
  const stats = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, file, rest] = /^(\/proc\/\d+\/stat):(.*)$/.exec(line) ?? [];
    if (file === undefined || rest === undefined) continue;
    const before = stats.get(file);
    stats.set(file, before === undefined ? rest : `${before}\n${rest}`);
  }
  return [...stats.values()].map((stat) => parseStat(stat, boot)).filter((each) => each !== null);
}

async function allOfPs(): Promise<Process[]> {
  const text = await ask("ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart=");
  return text.split("\n").map(parsePs).filter((each) => each !== null);
}

/** The pids of living processes whose environment carries `tag`, whatever their session or parent. */
export async function tagged(tag: string): Promise<number[]> {
  const mark = `${TAG}=${tag}`;
  if (LINUX) {
    const script = 'exec grep -lzxsF -e "$1" /proc/[0-9]*/environ';
    const text = await ask("/bin/sh", "-c", script, "sh", mark);
    return [...text.matchAll(/^\/proc\/(\d+)\/environ$/gm)].map((match) => Number(match[1]));
  }
  const text = await ask("ps", "-axEww", "-o", "pid=,command=");
  return text.split("\n").filter((line) => line.split(" ").includes(mark))
    .map((line) => Number(line.trim().split(" ")[0])).filter(Number.isInteger);
}

/** Whether `pid` is of some job: it carries any tag at all. */
export async function isOfJob(pid: number): Promise<boolean> {
  if (!LINUX) {
    return (await ask("ps", "-Eww", "-o", "command=", "-p", `${pid}`)).includes(`${TAG}=`);
  }
  return (await ask("grep", "-lzs", `^${TAG}=`, `/proc/${pid}/environ`)) !== "";
}
