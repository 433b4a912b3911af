/**
 * @module Stopping what a job started, until nothing of it is left: its group, everything with its tag, and everything
 * that stands in its directory.
 */

import { SubletError } from "../../home/mod.ts";
import { standingIn } from "./process_place.ts";
import { groupMembers, tagged } from "./process_table.ts";

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
  /** Between TERM and KILL, milliseconds. */
  readonly graceMs: number;
}

const LOOK_MS = 20;
/** How many looks in a row must find nothing, once something was found outside of the group. */
const LOOKS = 3;
/** What does not end within this time after its KILL hangs in the kernel. */
const KILL_MS = 10_000;

/**
 * TERM, the grace, KILL to the group; then KILL to all that carry the tag or stand in the place: the pids of those.
 * Throws `failed` when something stays.
 */
export async function stopProcesses(stop: Stop): Promise<number[]> {
  const strays = new Set<number>();
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
    const left = await killStrays(stop, end);
    // What hides from one look (a child started as its parent was looked at) shows in the next.
    if (left.length > 0) wanted = LOOKS;
    for (const pid of left) strays.add(pid);
    clean = groupLeft || left.length > 0 ? 0 : clean + 1;
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

/** Everything with the tag, or in the place. */
async function straysOf({ tag, place, since }: Stop): Promise<number[]> {
  const [carrying, standing] = await Promise.all([
    tag === null ? [] : tagged(tag),
    place === null ? [] : standingIn(place, since),
  ]);
  return [...new Set([...carrying, ...standing])];
}

/** KILL all strays; stopped first, all of them, so that nothing starts more meanwhile. Who was there. */
async function killStrays(stop: Stop, end: number): Promise<number[]> {
  const found = new Set<number>();
  for (let fresh = await straysOf(stop); fresh.length > 0 && performance.now() < end;) {
    for (const pid of fresh) {
      found.add(pid);
      signal(pid, "SIGSTOP");
    }
    fresh = (await straysOf(stop)).filter((pid) => !found.has(pid));
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
