/** @module `sublet pool list`. */

import type { Command } from "@commander-js/extra-typings";
import { ApiClient } from "./api_client.ts";
import { Output } from "./output.ts";

interface Slots {
  readonly used: number;
  readonly total: number | null;
}

interface PoolView {
  readonly pool: string;
  readonly workers: number;
  readonly agents: Slots;
  readonly evaluations: Slots;
}

function slots({ used, total }: Slots): string {
  return `${used}/${total ?? "unbounded"}`;
}

/** Add the command. */
export function addPool(root: Command): void {
  const pool = root.command("pool").description("Pools: the capacity of their workers.");
  pool.command("list")
    .description("List pools with their slots, used and in all.")
    .option("--json", "print one JSON document")
    .action(async (options) => {
      const output = new Output(options);
      using api = await ApiClient.open();
      const { pools } = await api.call<{ pools: PoolView[] }>("GET", "/v1/pools");
      if (output.json) return output.document(pools);
      output.table(
        ["pool", "workers", "agents", "evaluations"],
        pools.map((
          each,
        ) => [each.pool, String(each.workers), slots(each.agents), slots(each.evaluations)]),
      );
    });
}
