/** @module Parts of requests for work that several routes share. */

import * as z from "zod";
import { SubletError } from "../home/mod.ts";
import type { CampaignRef } from "../job/mod.ts";
import { campaignRef } from "./campaign_routes.ts";

/** The longest `wait`, seconds. */
export const MAX_WAIT = 25;

/** What names a version. */
export const revisionName = z.string().min(1).max(1024);

/** The campaign that a request is for. */
export const ofCampaign = {
  campaign: z.union([z.string().min(1).max(64), z.int().min(1)]).optional()
    .describe("The campaign's name or id. Or name a `path`."),
  path: z.string().min(1).max(4096).startsWith("/", "must be an absolute path").optional()
    .describe("A directory in the campaign's checkout, on the server."),
};

/** How long to wait for an end. */
export const waitQuery = z.object({
  wait: z.string().regex(/^\d+(\.\d+)?$/, "must be a number of seconds").transform(Number)
    .pipe(z.number().max(MAX_WAIT, `must be at most ${MAX_WAIT}`)).optional()
    .describe(`Seconds, at most ${MAX_WAIT}, to wait for its end. Default 0.`),
});

/** The campaign that a request names. Throws `invalid_body` unless it names one in one way. */
export function refOf({ campaign, path }: {
  readonly campaign?: string | number | undefined;
  readonly path?: string | undefined;
}): CampaignRef {
  if ((campaign === undefined) === (path === undefined)) {
    throw new SubletError("invalid_body", "name either a campaign or a path in its checkout");
  }
  if (path !== undefined) return { path };
  return typeof campaign === "number" ? { campaign } : campaignRef(campaign ?? "");
}

/** Throws `not_found` for a pool that the server does not have. */
export function checkPool(pool: string, pools: readonly string[]): void {
  if (pools.includes(pool)) return;
  throw new SubletError(
    "not_found",
    `there is no pool ${pool}: the server has ${[...pools].sort().join(", ")}`,
  );
}

/** The keys of `table` that have a value. */
export function pickDefined<T extends object>(
  table: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(
    Object.entries(table).filter(([, value]) => value !== undefined),
  ) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
