/** @module `sublet cas check`: of what the store holds, and with `--contract` of how it behaves. */

import type { Command } from "@commander-js/extra-typings";
import type { Cas, Cid, Fault } from "../cas/mod.ts";
import { EXIT, messageOf, SubletError } from "../home/mod.ts";
import { Finished } from "./finished.ts";
import { Output } from "./output.ts";

/** A line on stderr tells of so many blobs that were checked. */
const TELL_EVERY = 10_000;

interface CheckFlags {
  readonly repair?: true | undefined;
  readonly from?: string | undefined;
  readonly contract?: true | undefined;
  readonly url?: string | undefined;
  readonly json?: true | undefined;
}

/** Add the command. */
export function addCheck(cas: Command): void {
  cas.command("check")
    .description(
      "Read and hash every blob, or those named, and name what is damaged or missing and what needs it, and what can be " +
        "read but has a changed bit (altered). Exit code 9 when something is. With --contract: try whether a store does all that a store should.",
    )
    .argument("[cid...]", "the blobs to check (default: all)")
    .option(
      "--repair",
      "mend what is damaged or missing from the other tier of a cache, or from --from, and what is altered from itself",
    )
    .option("--from <url>", "a served store that may have whole copies, for --repair")
    .option("--contract", "check how the store behaves; leaves some MiB of blobs in it")
    .option("--url <url>", "for --contract: a served store (default: this home's)")
    .option("--json", "print one JSON document")
    .action(async (cids, options) => {
      checkFlags(cids, options);
      if (options.contract) await checkContract(options.url, new Output(options));
      else await checkBlobs(cids, options, new Output(options));
    });
}

function checkFlags(cids: readonly string[], options: CheckFlags): void {
  const wrong = options.contract
    ? [
      cids.length > 0 && "CIDs",
      options.repair && "--repair",
      options.from !== undefined && "--from",
    ].find((name) => typeof name === "string")
    : null;
  if (wrong) {
    throw new SubletError("usage", `--contract checks how a store behaves, without ${wrong}`);
  }
  if (!options.contract && options.url !== undefined) {
    throw new SubletError(
      "usage",
      "--url is for --contract: the blobs of a served store are checked on the machine that holds them",
    );
  }
  if (options.from !== undefined && !options.repair) {
    throw new SubletError("usage", "--from names where --repair takes whole copies: give both");
  }
}

/** The served store at `url`, dialed with this machine's credential. */
async function openUrl(url: string): Promise<Cas & AsyncDisposable> {
  const { openHttpCas } = await import("../cas/mod.ts");
  const { credentialFromEnv, openHttpClient } = await import("../net/mod.ts");
  const env = Deno.env.toObject();
  const client = await openHttpClient({ server: url, token: credentialFromEnv(env), env });
  return openHttpCas(client, { ownsClient: true });
}

async function checkBlobs(texts: string[], flags: CheckFlags, output: Output): Promise<void> {
  const { openHomeCas } = await import("./home_cas.ts");
  const { inspect, isInspectable, parseCid } = await import("../cas/mod.ts");
  const cids = texts.map(parseCid);
  await using home = await openHomeCas();
  const store = home.cas;
  if (!isInspectable(store)) {
    throw new SubletError(
      "invalid_request",
      "this store is elsewhere, so it cannot be counted or checked from here: run the command on the machine that holds it",
    );
  }
  await using other = flags.from === undefined ? null : await openUrl(flags.from);
  let checked = 0;
  const faults: Fault[] = [];
  const found = inspect(store, {
    ...(cids.length === 0 ? {} : { cids }),
    ...(flags.repair ? { repair: true } : {}),
    ...(other === null ? {} : { from: other }),
    onChecked() {
      if (++checked % TELL_EVERY === 0) output.note(`${checked} blobs checked`);
    },
  });
  for await (const fault of found) faults.push(fault);
  if (flags.repair && cids.length === 0 && store.flush !== undefined) {
    const { uploaded } = await store.flush();
    if (uploaded > 0) output.note(`${uploaded} blobs uploaded that only this machine had`);
  }
  await report(store, home.database, faults, checked, output);
  if (faults.some(({ mended }) => !mended)) throw new Finished(EXIT.integrity);
}

async function report(
  cas: Cas,
  database: string,
  faults: readonly Fault[],
  checked: number,
  output: Output,
): Promise<void> {
  const { findNeeds } = await import("./cas_needs.ts");
  const left = faults.filter(({ mended }) => !mended);
  if (left.length > 0) output.note("looking for what needs them");
  const cids = left.map(({ cid }) => cid);
  const needs = left.length === 0 ? null : await findNeeds(database, cas, cids);
  const of = (cid: Cid) => needs?.of(cid) ?? [];
  const named = (state: Fault["state"]) =>
    left.filter((fault) => fault.state === state).map(({ cid }) => cid);
  const mended = faults.filter((fault) => fault.mended).map(({ cid }) => cid);
  if (output.json) {
    return output.document({
      ok: checked - faults.length,
      missing: named("missing"),
      corrupt: named("corrupt"),
      altered: named("altered"),
      mended,
      needed_by: Object.fromEntries(left.map(({ cid }) => [cid, of(cid)])),
    });
  }
  for (const cid of mended) output.line(`mended\t${cid}`);
  for (const { cid, state, why } of left) {
    const needed = of(cid);
    output.line([state, cid, ...(needed.length === 0 ? [] : [needed.join(", ")])].join("\t"));
    if (why !== null) output.note(`${cid} is not mended: ${why}`);
  }
  output.note(
    `${checked - faults.length} ok, ${named("corrupt").length} corrupt, ${
      named("missing").length
    } missing` + (named("altered").length === 0 ? "" : `, ${named("altered").length} altered`) +
      (mended.length === 0 ? "" : `, ${mended.length} mended`),
  );
}

async function checkContract(url: string | undefined, output: Output): Promise<void> {
  const { casRules } = await import("../cas/mod.ts");
  const { openHomeCas } = await import("./home_cas.ts");
  await using home = url === undefined ? await openHomeCas() : null;
  await using remote = url === undefined ? null : await openUrl(url);
  const cas = home?.cas ?? remote;
  if (cas === null) throw new SubletError("internal", "there is no store to check");
  const scratch = await Deno.makeTempDir({ prefix: "sublet-contract-" });
  const rules: { rule: string; kept: boolean; error: string | null }[] = [];
  try {
    for await (const { rule, kept, error } of casRules(() => Promise.resolve(cas), { scratch })) {
      const why = error === undefined ? null : messageOf(error);
      rules.push({ rule, kept, error: why });
      if (output.json) continue;
      output.line([kept ? "ok" : "broken", rule, ...(why === null ? [] : [why])].join("\t"));
    }
  } finally {
    await Deno.remove(scratch, { recursive: true }).catch(() => {});
  }
  const broken = rules.filter(({ kept }) => !kept).length;
  const store = url ?? home?.where ?? "";
  if (output.json) output.document({ store, rules });
  else output.note(`${store}: ${rules.length - broken} rules kept, ${broken} broken`);
  if (broken > 0) throw new Finished(EXIT.failed);
}
