/** @module `sublet worker`: lend this machine; `sublet worker list`: who is there. */

import type { Command, CommandUnknownOpts } from "@commander-js/extra-typings";
import { homeDir, homePaths, makeHome, SubletError } from "../home/mod.ts";
import { ApiClient } from "./api_client.ts";

import { Finished } from "./finished.ts";
import { age, Output, size } from "./output.ts";
import { duration, seconds } from "./parse.ts";
import { selfCommand } from "./self.ts";
import { VERSION } from "./version.ts";

/** A worker, as the API answers it. */
interface WorkerView {
  readonly worker: string;
  readonly pool: string;
  readonly version: string;
  readonly seen_at: string;
  readonly reachable: boolean;
  readonly sample:
    | { cpus: number; load1: number; memory_available: number; disk_free: number }
    | null;
  readonly agents: number;
  readonly evaluations: number;
  readonly no_lease: string | null;
  readonly standing_reason: string | null;
  readonly drain_by: string | null;
}

/** Add the commands. */
export function addWorker(root: Command): void {
  const worker = root.command("worker")
    .description(
      "Lend this machine: take jobs of a server, run them, report. Its name is its token's.",
    )
    .option("--server <url>", "the server's URL")
    .option("--pool <name>", "the pool to join")
    .option("--once", "take one job, report it, and leave")
    .option(
      "--orphan-exit <seconds>",
      "leave when the server was silent for so long and no job runs",
      seconds,
    )
    .addHelpText(
      "after",
      `
Needs SUBLET_HTTPS_TOKEN, and in this home's config.toml the server's [plugins.cas].
SIGTERM drains (30 s), a second one stops at once.

Example:
  SUBLET_HTTPS_TOKEN=slt_… sublet worker --server https://server:8443 --pool gpu`,
    )
    .action(async (options) => {
      const { server, pool } = options;
      if (server === undefined || pool === undefined) {
        throw new SubletError(
          "usage",
          "sublet worker needs --server URL and --pool NAME, or a subcommand (`sublet worker --help`)",
        );
      }
      const paths = homePaths(homeDir());
      await makeHome(paths.root);
      const { loadConfig } = await import("../home/config/mod.ts");
      const config = await loadConfig(paths.root);
      const { credentialFromEnv } = await import("../net/mod.ts");
      const { runSupervisedWorker } = await import("../lease/machine/mod.ts");
      const code = await runSupervisedWorker({
        server,
        token: credentialFromEnv(Deno.env.toObject()),
        pool,
        home: paths.root,
        casTable: config.cas,
        once: options.once === true,
        orphanExitSeconds: options.orphanExit ?? null,
        minFreeGb: config.storage.minFreeGb,
        version: VERSION,
        self: selfCommand([]),
      });
      if (code !== 0) throw new Finished(code);
    });
  addList(worker);
  addStanding(worker);
}

/** `drain`, `pause`, `resume` and `remove`: how a worker stands with the server. */
function addStanding(worker: CommandUnknownOpts): void {
  const what = "the worker, as `worker list` shows it";
  const why = "why, for whoever reads the list";
  worker.command("drain")
    .description("Let a worker finish its jobs, take no more, and leave.")
    .argument("<name>", what)
    .option("--reason <text>", why)
    .option(
      "--deadline <duration>",
      "take what it still holds after so long, such as 30m: those jobs are queued again",
      duration,
    )
    .action(async (name, { reason, deadline }) => {
      await stand("POST", name, "drain", "drains", {
        ...(reason === undefined ? {} : { reason }),
        ...(deadline === undefined ? {} : { deadline_seconds: deadline / 1000 }),
      });
    });
  worker.command("pause")
    .description("Let a worker take no jobs until it is resumed.")
    .argument("<name>", what)
    .option("--reason <text>", why)
    .action(async (name, { reason }) => {
      await stand("POST", name, "pause", "paused", reason === undefined ? {} : { reason });
    });
  worker.command("resume")
    .description(
      "Let a drained or paused worker take jobs again. A process that was told of a drain still leaves: start it again.",
    )
    .argument("<name>", what)
    .action((name) => stand("POST", name, "resume", "resumed"));
  worker.command("remove")
    .description("Forget a worker that is gone and holds nothing.")
    .argument("<name>", what)
    .action((name) => stand("DELETE", name, "", "removed"));
}

async function stand(method: string, name: string, verb: string, done: string, body?: unknown) {
  using api = await ApiClient.open();
  const path = `/v1/workers/${encodeURIComponent(name)}`;
  await api.call(method, verb === "" ? path : `${path}/${verb}`, body);
  new Output().note(`worker ${name} ${done}`);
}

/** Why a worker gets no job, with what whoever drained or paused it said. */
export function whyNone(
  worker: Pick<WorkerView, "no_lease" | "standing_reason" | "drain_by">,
): string {
  const { no_lease: why, standing_reason: reason, drain_by: by } = worker;
  if (why === null || !["draining", "drained", "paused"].includes(why)) return why ?? "";
  return [
    why,
    by === null || why !== "draining" ? "" : ` by ${by}`,
    reason === null ? "" : `: ${reason}`,
  ]
    .join("");
}

function addList(worker: CommandUnknownOpts): void {
  worker.command("list")
    .description("List the workers, and why each got no lease.")
    .option("--json", "print one JSON document")
    .action(async (options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      const { workers } = await api.call<{ workers: WorkerView[] }>("GET", "/v1/workers");
      if (output.json) return output.document(workers);
      if (workers.length === 0) {
        output.note(
          "no worker yet: `sublet worker --server URL --pool NAME` on a machine starts one",
        );
      }
      output.table(
        ["worker", "pool", "seen", "load", "memory", "disk", "agents", "evaluations", "no lease"],
        workers.map((each) => [
          each.worker,
          each.pool,
          `${age(Date.now() - Date.parse(each.seen_at))} ago`,
          each.sample === null ? "" : `${each.sample.load1.toFixed(1)}/${each.sample.cpus}`,
          each.sample === null ? "" : size(each.sample.memory_available),
          each.sample === null ? "" : size(each.sample.disk_free),
          String(each.agents),
          String(each.evaluations),
          whyNone(each),
        ]),
      );
    });
}
