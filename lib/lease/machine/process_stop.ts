/**
 * @module Stopping what a job started, until nothing of it is left: its group, everything with its tag, and everything
 * that stands in its directory.
 */

import { SubletError } from "../../home/mod.ts";
import { standingIn } from "./process_place.ts";
import { descendants, groupMembers, type Process, processAt, tagged } from "./process_table.ts";

/** What to stop. */
export interface Stop {
  /** The process group, which is known to be the job's. Null: go by the tag alone. */
  readonly group: number | null;
  /** Whether the group's leader, a child of ours, has ended. */
  readonly leaderEnded: () => boolean;
  readonly tag: string | null;
  /** The job's directory, absolute and without links: whoever stands in it is the job's. Null: that says nothing. */
  readonly place: string | null;
  /** When the job started, seconds since 1970, when that is known: who is older is none of it. */
  readonly since: number | null;
  /** Ends everything in the job's control group: who was there, and whether somebody still is. Null: it has none. */
  readonly endGroup: (() => Promise<{ readonly pids: number[]; readonly left: boolean }>) | null;
  /** Between TERM and KILL, milliseconds. */
  readonly graceMs: number;
}

const LOOK_MS = 20;
/** How many looks in a row must find nothing, once something was found outside of the group. */
const LOOKS = 3;
/** Start times are told to the hundredth of a second. */
const SAME_START_SECONDS = 0.015;
/** What does not end within this time after its KILL hangs in the kernel. */
const KILL_MS = 10_000;

/**
 * TERM, the grace, KILL to the group; then KILL to all that carry the tag or stand in the place: the pids of those.
 * Throws `failed` when something stays.
 */
export async function stopProcesses(stop: Stop): Promise<number[]> {
  const strays = new Set<number>();
  // While the line to who started them is whole: it breaks when a parent ends.
  const kin = stop.group !== null && isGroup(stop.group) ? await descendants(stop.group) : [];
  if (stop.group !== null && signal(-stop.group, "SIGTERM") && stop.graceMs > 0) {
    const end = performance.now() + stop.graceMs;
    while (await groupLives(stop) && performance.now() < end) await pause(LOOK_MS);
  }
  const end = performance.now() + KILL_MS;
  let clean = 0;
  let wanted = 1;
  while (true) {
    const groupLeft = await groupLives(stop);
    if (groupLeft && stop.group !== null) signal(-stop.group, "SIGKILL");
    const left = await killStrays(stop, kin, end);
    // What hides from one look (a child started as its parent was looked at) shows in the next.
    if (left.length > 0) wanted = LOOKS;
    for (const pid of left) strays.add(pid);
    const { pids, left: grouped } = await stop.endGroup?.() ?? { pids: [], left: false };
    // Where the kernel ends no control group as a whole.
    for (const pid of pids) signal(pid, "SIGKILL");
    if (!groupLeft) { for (const pid of pids) strays.add(pid); }
    clean = groupLeft || left.length > 0 || grouped ? 0 : clean + 1;
    if (clean >= wanted) return [...strays];
    if (performance.now() > end) {
      throw new SubletError(
        "failed",
        `processes of the job go on after they were killed: ${[stop.group, ...left].join(", ")}`,
      );
    }
    await pause(LOOK_MS);
  }
}

/** Whether there is anybody in the group `group`, dead members included. */
export function isGroup(group: number): boolean {
  return signal(-group, null);
}

/** Whether anybody has the pid `pid`, a dead process that nobody collected included. */
export function isProcess(pid: number): boolean {
  return signal(pid, null);
}

/** Whether a living process is in the group. */
async function groupLives({ group, leaderEnded }: Stop): Promise<boolean> {
  if (group === null || !isGroup(group)) return false;
  // A dead member that nobody collects still counts for the kernel: only once the leader is gone is a closer look due.
  if (!leaderEnded()) return true;
  return (await groupMembers(group)).length > 0;
}

/** Everything with the tag or in the place, and those of `kin` that live. */
async function straysOf(
  { tag, place, since }: Stop,
  kin: readonly Process[],
): Promise<number[]> {
  const [carrying, standing, left] = await Promise.all([
    tag === null ? [] : tagged(tag),
    place === null ? [] : standingIn(place, since),
    Promise.all(kin.map(isStill)),
  ]);
  const living = kin.filter((_, at) => left[at]).map(({ pid }) => pid);
  return [...new Set([...carrying, ...standing, ...living])];
}

/** Whether `process` lives: its pid may be another's by now. */
async function isStill({ pid, startTime }: Process): Promise<boolean> {
  if (!isProcess(pid)) return false;
  const now = await processAt(pid);
  if (now === null || now.zombie || startTime === null || now.startTime === null) return false;
  return Math.abs(now.startTime - startTime) < SAME_START_SECONDS;
}

/** KILL all strays; stopped first, all of them, so that nothing starts more meanwhile. Who was there. */
async function killStrays(
  stop: Stop,
  kin: readonly Process[],
  end: number,
): Promise<number[]> {
  const found = new Set<number>();
  for (let fresh = await straysOf(stop, kin); fresh.length > 0 && performance.now() < end;) {
    for (const pid of fresh) {
      found.add(pid);
      signal(pid, "SIGSTOP");
    }
    fresh = (await straysOf(stop, kin)).filter((pid) => !found.has(pid));
  }
  for (const pid of found) signal(pid, "SIGKILL");
  return [...found];
}

/** Send a signal, or (null) only ask; whether there was anybody to get it. */
function signal(pid: number, name: Deno.Signal | null): boolean {
  try {
    Deno.kill(pid, name ?? 0 as unknown as Deno.Signal);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    // It became another user: it lives, and is not ours to stop. macOS says so of dead ones as well.
    if (error instanceof Deno.errors.PermissionDenied) return Deno.build.os === "linux";
    throw error;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
