/** @module `sublet cas gc | pin | unpin | pins`: what of the store nobody needs goes, and what is kept all the same. */

import type { Command } from "@commander-js/extra-typings";
import type { Cas, Cid, Collectable, GarbageReport } from "../cas/mod.ts";
import { type HomePaths, SubletError } from "../home/mod.ts";
import type { HomeCas } from "./home_cas.ts";
import { age, Output, size } from "./output.ts";
import { duration } from "./parse.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** A line on stderr tells of so many blobs. */
const TELL_EVERY = 100_000;

interface GcFlags {
  readonly dryRun?: true | undefined;
  readonly grace: number;
  readonly alone?: true | undefined;
  readonly despiteDamage?: true | undefined;
  readonly json?: true | undefined;
}

/** Add the commands. */
export function addGc(cas: Command): void {
  cas.command("gc")
    .description(
      "Remove the blobs that nothing of this home needs: no job, report, agent, session, log, first transfer or pin, nor " +
        "what these name. Younger ones than --grace stay.",
    )
    .option("--dry-run", "only say what would be removed")
    .option(
      "--grace <duration>",
      "keep what was put, or asked for, as lately, such as 24h",
      duration,
      DAY_MS,
    )
    .option("--alone", "nobody but this home uses the store, although it is not in the home")
    .option("--despite-damage", "go on when a damaged manifest or document may name blobs")
    .option("--json", "print one JSON document")
    .action(async (flags) => await collect(flags, new Output(flags)));
  addPins(cas);
}

function addPins(cas: Command): void {
  cas.command("pin")
    .description("Keep a blob, and all that it names, although nothing of this home needs it.")
    .argument("<cid>", "the blob's address")
    .requiredOption("--reason <text>", "why it is kept")
    .action(async (text, options) => {
      const { parseCid } = await import("../cas/mod.ts");
      const cid = parseCid(text);
      await using home = await openStore();
      if (!await home.cas.has(cid)) {
        throw new SubletError("not_found", `the store holds no blob ${cid}: put it first`);
      }
      await (await pins()).add({ cid, reason: options.reason, at: Date.now() });
    });
  cas.command("unpin")
    .description("Keep a blob no longer than something needs it.")
    .argument("<cid>", "the blob's address")
    .action(async (text) => {
      const { parseCid } = await import("../cas/mod.ts");
      await (await pins()).remove(parseCid(text));
    });
  cas.command("pins")
    .description("The blobs that are kept by a pin.")
    .option("--json", "print one JSON document")
    .action(async (options) => {
      const output = new Output(options);
      const found = await (await pins()).list();
      if (output.json) {
        return output.document(
          found.map((pin) => ({ ...pin, at: new Date(pin.at).toISOString() })),
        );
      }
      output.table(
        ["cid", "since", "reason"],
        found.map(({ cid, at, reason }) => [cid, new Date(at).toISOString(), reason]),
      );
    });
}

async function openStore(sweeps = true): Promise<HomeCas> {
  return await (await import("./home_cas.ts")).openHomeCas(Deno.env.toObject(), sweeps);
}

async function homeHere(): Promise<HomePaths> {
  const { homeDir, homePaths } = await import("../home/mod.ts");
  return homePaths(homeDir());
}

async function pins() {
  const { Pins } = await import("./cas_pins.ts");
  return new Pins((await homeHere()).root);
}

/** The home's store. Throws `invalid_request` when blobs cannot be collected in it from here. */
async function collectableIn(home: HomeCas): Promise<Cas & Collectable> {
  const { isCollectable } = await import("../cas/mod.ts");
  if (isCollectable(home.cas)) return home.cas;
  throw new SubletError(
    "invalid_request",
    `the store ${home.where} is served from elsewhere: run \`sublet cas gc\` on the machine that holds it`,
  );
}

async function collect(flags: GcFlags, output: Output): Promise<void> {
  const { collectGarbage } = await import("../cas/mod.ts");
  const { openHomeNeeds } = await import("./cas_live.ts");
  const paths = await homeHere();
  // What crashes left is counted, and stays in a dry run.
  await using home = await openStore(false);
  const store = await collectableIn(home);
  await using needs = await openHomeNeeds(paths, home.retention);
  if (!flags.dryRun && !flags.alone) refuseShared(home, paths, needs.works);
  using _home = flags.dryRun ? null : await quiet(store, paths, flags.grace);
  let told = 0;
  const report = await collectGarbage(store, {
    find: needs.find,
    graceMs: flags.grace,
    ...(flags.dryRun ? { dryRun: true } : {}),
    ...(flags.despiteDamage ? { despiteDamage: true } : {}),
    progress(step, count) {
      const now = Math.floor(count / TELL_EVERY);
      if (now > 0 && now !== told) output.note(`${step}: ${count} blobs`);
      told = now;
    },
  });
  tell(report, flags, output);
}

/** Throws `conflict` for a store that others may use, of whose needs this home knows nothing. */
function refuseShared(home: HomeCas, paths: HomePaths, works: boolean): void {
  const inHome = ["file://", "sqlite://"].some((scheme) =>
    home.where.startsWith(`${scheme}${paths.root}/`)
  );
  if (inHome && works) return;
  const why = works
    ? `${home.where} is not in this home, so others may use it`
    : `nothing in this home names a blob, so whoever uses ${home.where} is not known here`;
  throw new SubletError(
    "conflict",
    `${why}, and what only they need would be removed. See what that is with --dry-run. When nobody else uses it: --alone`,
  );
}

/** Hold the home when that is needed, so that no server runs in it meanwhile. */
async function quiet(
  store: Collectable,
  paths: HomePaths,
  graceMs: number,
): Promise<Disposable | null> {
  const shortest = 2 * store.keepEveryMs;
  const unsafe = graceMs < shortest
    ? `a grace of less than ${shortest / 60_000} minutes`
    : await store.unsafeBecause?.() ?? null;
  if (unsafe === null) return null;
  const { takeHome } = await import("./server_lock.ts");
  const { quietStore } = await import("./store_lock.ts");
  const held = new DisposableStack();
  try {
    held.use(quietStore(paths));
    held.use(await takeHome(paths));
    return held;
  } catch (error) {
    held.dispose();
    throw new SubletError(
      "conflict",
      `${unsafe} needs the server to be stopped: ${error instanceof Error ? error.message : error}`,
      { cause: error },
    );
  }
}

function tell(report: GarbageReport, flags: GcFlags, output: Output): void {
  const { lost, damaged, oldest } = report;
  if (output.json) {
    return output.document({
      dry_run: flags.dryRun === true,
      blobs: report.blobs,
      bytes: report.bytes,
      live: report.live,
      young: report.young,
      removed: report.removed,
      freed: report.freed,
      leftovers: report.leftovers.count,
      leftover_bytes: report.leftovers.bytes,
      oldest: oldest === null ? null : new Date(oldest).toISOString(),
      lost,
      damaged,
    });
  }
  const say = (what: string, cids: readonly Cid[]) => {
    for (const cid of cids.slice(0, 10)) output.note(`${cid} is in use and ${what}`);
    if (cids.length > 10) output.note(`and ${cids.length - 10} more`);
  };
  say("not in the store", lost);
  say("damaged: `sublet cas check --repair` may mend it", damaged);
  output.table([], garbageRows(report, flags.dryRun === true));
}

/** What a collection found and did, as rows of a table. */
export function garbageRows(report: GarbageReport, dryRun: boolean): string[][] {
  return [
    ["blobs", String(report.blobs)],
    ["in use", String(report.live)],
    ["too young to go", String(report.young)],
    [dryRun ? "would be removed" : "removed", String(report.removed)],
    [dryRun ? "would be freed" : "freed", size(report.freed)],
    ["left by crashes", `${report.leftovers.count}, ${size(report.leftovers.bytes)}`],
    ...(report.oldest === null ? [] : [["oldest", age(Date.now() - report.oldest)]]),
  ];
}
