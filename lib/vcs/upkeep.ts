/** @module Keeping a replica quick with age: many small packs become few, and pins that others imply go. */

import type { Git } from "./git_call.ts";
import { PINS } from "./names.ts";
import { onPlace, type Place } from "./place.ts";

/** More packs than this are rolled up. */
const MAX_PACKS = 40;
/** More pins than this are thinned out. */
const MAX_PINS = 200;

async function count(directory: string, counts: (name: string) => boolean): Promise<number> {
  let found = 0;
  try {
    for await (const { name } of Deno.readDir(directory)) if (counts(name)) found++;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return found;
}

/** Remove each pin that is an ancestor of another one, and pack the rest into one file. */
async function thinPins(git: Git, place: Place): Promise<void> {
  const decoder = new TextDecoder();
  const lines = (bytes: Uint8Array) => decoder.decode(bytes).split("\n").filter((l) => l !== "");
  const listed = await onPlace(git, place, {
    args: ["for-each-ref", "--format=%(objectname)", PINS],
  });
  const pins = lines(listed.stdout);
  // What is reachable from the pins, and from no parent of one: the pins that no other implies.
  const walked = await onPlace(git, place, {
    args: ["rev-list", "--stdin"],
    stdin: pins.map((pin) => `${pin}\n^${pin}^@\n`).join(""),
  });
  const needed = new Set(lines(walked.stdout));
  const spare = pins.filter((pin) => !needed.has(pin));
  await onPlace(git, place, {
    args: ["update-ref", "--stdin"],
    stdin: spare.map((pin) => `delete ${PINS}${pin} ${pin}\n`).join(""),
  });
  await onPlace(git, place, { args: ["pack-refs", "--all", "--prune"] });
}

/** Put the replica at `place` in order when it needs it; two directory reads when it does not. */
export async function tend(git: Git, place: Place): Promise<void> {
  const packs = await count(`${place.commonDir}/objects/pack`, (name) => name.endsWith(".pack"));
  if (packs > MAX_PACKS) {
    await onPlace(git, place, {
      args: ["repack", "--geometric=2", "-d", "-q", "-n"],
      // It removes the only copies of what jobs committed here.
      settings: ["core.fsync=default"],
    });
  }
  const pins = await count(`${place.commonDir}/${PINS}`, (name) => !name.endsWith(".lock"));
  if (pins > MAX_PINS) await thinPins(git, place);
}
