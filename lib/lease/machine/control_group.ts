/**
 * @module Control groups (version 2), one for each job, where this process may make any: whatever a job starts stays in
 * its group, however it hides. Elsewhere the job's tag and its directory tell what is its.
 */

import { ask, LINUX } from "./process_table.ts";
import { kernelFile } from "./kernel_file.ts";

const TRY = 'mkdir "$1" 2>/dev/null && rmdir "$1" && echo yes';
/** Prints who is in the group, ends them, and removes it with those within it. */
const END = `cd "$1" 2>/dev/null || exit 0
find . -name cgroup.procs -exec cat {} +
echo 1 >cgroup.kill
cd /
find "$1" -depth -type d -exec rmdir {} + 2>/dev/null
[ ! -d "$1" ] || echo left`;

/** Where a process of control group `group` (from `/proc/self/cgroup`) finds its directory, going by `mountinfo`. */
export function groupDirectory(mountinfo: string, cgroup: string): string | null {
  const group = /^0::(\/.*)$/m.exec(cgroup)?.[1];
  if (group === undefined || group.includes("..")) return null;
  for (const line of mountinfo.split("\n")) {
    const [before = "", after = ""] = line.split(" - ");
    const [, , , root = "", point = ""] = before.split(" ");
    if (!after.startsWith("cgroup2 ") || point.includes("\\")) continue;
    const within = root === "/"
      ? group
      : group === root
      ? ""
      : group.startsWith(`${root}/`)
      ? group.slice(root.length)
      : null;
    if (within !== null) return `${point}${within === "/" ? "" : within}`;
  }
  return null;
}

/** The groups of jobs of this process. */
export class ControlGroups {
  #parent: Promise<string | null> | null = null;

  /** The directory of the group of jobs with `tag`, which need not be there; null: no group can be made here. */
  async of(tag: string): Promise<string | null> {
    this.#parent ??= findParent();
    const parent = await this.#parent;
    return parent === null ? null : `${parent}/sublet.${tag}`;
  }

  /** End everything in the group at `path`: who was there, and whether somebody still is. */
  async end(path: string): Promise<{ readonly pids: number[]; readonly left: boolean }> {
    if (!await isThere(path)) return { pids: [], left: false };
    const said = await ask("/bin/sh", "-c", END, "sh", path);
    const pids = [...said.matchAll(/^(\d+)$/gm)].map((match) => Number(match[1]));
    return { pids: pids.filter((pid) => pid !== 0), left: /^left$/m.test(said) };
  }
}

async function isThere(path: string): Promise<boolean> {
  return await Deno.stat(path).then(
    () => true,
    (error) => !(error instanceof Deno.errors.NotFound),
  );
}

async function findParent(): Promise<string | null> {
  if (!LINUX) return null;
  const mounts = await kernelFile("/proc/self/mountinfo") ?? "";
  const parent = groupDirectory(mounts, await kernelFile("/proc/self/cgroup") ?? "");
  if (parent === null) return null;
  const said = await ask("/bin/sh", "-c", TRY, "sh", `${parent}/sublet.probe-${Deno.pid}`);
  return said.trim() === "yes" ? parent : null;
}
