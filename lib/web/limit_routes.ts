/** @module The API's routes of limits: what operators set over the config while the server runs. */

import * as z from "zod";
import type { Limits, LimitView } from "../lease/mod.ts";
import { name, type Route, route } from "./route.ts";
import { time } from "./schemas.ts";

const value = z.number().nullable().describe("Null: no bound.");

const limit = z.object({
  value,
  reason: z.string(),
  actor: z.string().describe("Who set it."),
  at: time,
});

const liveKey = name(
  "LiveKey",
  z.object({
    key: z.string().describe("Such as `executor.pools.lab.evaluations`."),
    value: value.describe("What is in force. Null: no bound."),
    source: z.enum(["default", "config", "limit"]).describe("Where it is from."),
    configured: value.describe("What it is without the limit. Null: no bound."),
    limit: limit.nullable(),
  }),
);

const refused = name(
  "RefusedLimit",
  z.object({
    key: z.string(),
    ...limit.shape,
    why: z.string().describe("Why it is not in force: what the config does not allow any more."),
  }),
);

/** The limits that are set, as the status shows them. */
export const limitsShown = {
  limits: z.array(liveKey).describe("Keys on which an operator set a limit."),
  refused_limits: z.array(refused).describe("Limits that are kept, but not in force."),
};

const list = name(
  "LimitList",
  z.object({ limits: z.array(liveKey), refused: z.array(refused) }),
);

const wanted = name(
  "NewLimit",
  z.object({
    value,
    reason: z.string().trim().min(1, "say why").max(1000).describe("Why, for whoever reads it."),
  }),
);

const params = z.object({ key: z.string().min(1).max(200) });

/** A live key, as the API shows it. */
export function limitJson(view: LimitView): z.input<typeof liveKey> {
  return { ...view, limit: view.limit === null ? null : { ...view.limit } };
}

/** The routes of limits. */
export function limitRoutes(limits: Limits): Route[] {
  return [
    route({
      method: "get",
      path: "/v1/limits",
      access: "read",
      operation: "listLimits",
      summary: "Every key that may change while the server runs, and where its value is from.",
      answer: list,
    }, () =>
      Promise.resolve({
        limits: limits.list().map(limitJson),
        refused: limits.refused().map((each) => ({ ...each })),
      })),
    route({
      method: "put",
      path: "/v1/limits/{key}",
      access: "admin",
      operation: "setLimit",
      summary: "Set a key over the config: in force at once, and after every restart.",
      params,
      body: wanted,
      answer: liveKey,
    }, async ({ params, body, caller }) => {
      const actor = caller?.name ?? "";
      return limitJson(await limits.set(params.key, body.value, body.reason, actor));
    }),
    route({
      method: "delete",
      path: "/v1/limits/{key}",
      access: "admin",
      operation: "unsetLimit",
      summary: "Go back to what the config says.",
      params,
      answer: null,
    }, async ({ params, caller }) => await limits.unset(params.key, caller?.name ?? "")),
  ];
}
