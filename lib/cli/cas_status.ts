/** @module `sublet cas status`. */

import type { Command } from "@commander-js/extra-typings";
import type { Cas, Collectable, GarbageReport, Tiered, Upkeep, Usage } from "../cas/mod.ts";
import { isError } from "../home/mod.ts";
import { garbageRows } from "./cas_gc.ts";
import type { HomeCas } from "./home_cas.ts";
import { age, Output, size } from "./output.ts";
import { duration } from "./parse.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** Add the command. */
export function addStatus(cas: Command): void {
  cas.command("status")
    .description("Where the store is, and how much it holds.")
    .option("--garbage", "also look up what `sublet cas gc` would remove, which takes longer")
    .option("--grace <duration>", "with --garbage: as of `sublet cas gc`", duration, DAY_MS)
    .option("--json", "print one JSON document")
    .action(async (options) => {
      const output = new Output(options);
      const { openHomeCas } = await import("./home_cas.ts");
      await using home = await openHomeCas(Deno.env.toObject(), false);
      const garbage = options.garbage ? await garbageIn(home, options.grace) : null;
      const { counts, oldest }: Counted = garbage !== null && !isTiered(home.cas)
        ? { counts: garbage, oldest: garbage.oldest }
        : await countIn(home.cas);
      if (output.json) return output.document(document(home, counts, oldest, garbage));
      output.table([], [
        ["store", home.provider],
        ["where", home.where],
        ...(counts === null
          ? []
          : [["blobs", String(counts.blobs)], ["stored", size(counts.bytes)]]),
        ...(counts?.tiers === undefined ? [] : [
          ["here", String(counts.tiers.local)],
          ["on the remote", String(counts.tiers.remote)],
        ]),
        ...(garbage !== null
          ? garbageRows(garbage, true).slice(1)
          : oldest === null
          ? []
          : [["oldest", age(Date.now() - oldest)]]),
      ]);
    });
}

function document(
  home: HomeCas,
  counts: Usage | null,
  oldest: number | null,
  garbage: GarbageReport | null,
): Record<string, unknown> {
  return {
    provider: home.provider,
    where: home.where,
    blobs: counts?.blobs ?? null,
    bytes: counts?.bytes ?? null,
    tiers: counts?.tiers ?? null,
    oldest: oldest === null ? null : new Date(oldest).toISOString(),
    garbage: garbage === null ? null : {
      live: garbage.live,
      young: garbage.young,
      blobs: garbage.removed,
      bytes: garbage.freed,
      leftovers: garbage.leftovers.count,
      leftover_bytes: garbage.leftovers.bytes,
    },
  };
}

interface Counted {
  readonly counts: Usage | null;
  readonly oldest: number | null;
}

/** Whether it counts its blobs by tier. */
function isTiered(cas: Cas & Partial<Tiered>): boolean {
  return cas.mend !== undefined;
}

/** What is there, and when the oldest blob of it was stored (Unix ms), as far as one look at each tells. */
async function countIn(
  cas: Cas & Partial<Upkeep>,
): Promise<Counted> {
  const { isCollectable } = await import("../cas/mod.ts");
  const tiered = isTiered(cas);
  if (tiered || !isCollectable(cas)) {
    const counts = await cas.usage?.() ?? null;
    if (!isCollectable(cas)) return { counts, oldest: null };
    const oldest = await look(cas).then(({ oldest }) => oldest, (error) => {
      // What the remote holds is told where it is served.
      if (!isError(error, "config")) throw error;
      return null;
    });
    return { counts, oldest };
  }
  const { blobs, bytes, oldest } = await look(cas);
  return { counts: { blobs, bytes }, oldest };
}

async function look(cas: Collectable) {
  let blobs = 0;
  let total = 0;
  let oldest: number | null = null;
  for await (const { bytes, storedAt } of cas.held()) {
    blobs++;
    total += bytes;
    oldest = Math.min(oldest ?? Infinity, storedAt);
  }
  return { blobs, bytes: total, oldest };
}

/** What a collection would remove; null when there can be none from here. */
async function garbageIn(home: HomeCas, graceMs: number): Promise<GarbageReport | null> {
  const { collectGarbage, isCollectable } = await import("../cas/mod.ts");
  const { openHomeNeeds } = await import("./cas_live.ts");
  const { homeDir, homePaths } = await import("../home/mod.ts");
  if (!isCollectable(home.cas)) return null;
  await using needs = await openHomeNeeds(homePaths(homeDir()), home.retention);
  return await collectGarbage(home.cas, { find: needs.find, graceMs, dryRun: true });
}
