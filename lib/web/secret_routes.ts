/** @module The API's routes of secrets. A value goes in, and never comes out. */

import * as z from "zod";
import type { SecretBook } from "../job/mod.ts";
import type { Caller } from "../net/mod.ts";
import { campaignRef } from "./campaign_routes.ts";
import { name, type Route, route } from "./route.ts";
import { time } from "./schemas.ts";

const secret = name(
  "Secret",
  z.object({
    name: z.string(),
    campaign: z.string().nullable().describe("Whose it is. Null: the home's."),
    set_at: time,
    set_by: z.string(),
  }),
);

const list = name("SecretList", z.object({ secrets: z.array(secret) }));

const wanted = name(
  "NewSecret",
  z.object({
    value: z.string().describe("At least 4 bytes, at most 64 KiB, without a NUL."),
    campaign: z.string().min(1).max(64).nullable().default(null)
      .describe("The campaign's id or name. Null: every campaign of the home."),
  }),
);

const params = z.object({ name: z.string().max(300).describe("Of an environment variable.") });
const query = z.object({ campaign: z.string().min(1).max(64).optional() });

function nameOf(caller: Caller | null): string {
  return caller?.name ?? "owner";
}

function ownerOf(text: string | null | undefined): number | string | null {
  return text === null || text === undefined ? null : campaignRef(text).campaign;
}

/** The routes of secrets. */
export function secretRoutes(secrets: SecretBook): Route[] {
  return [
    route({
      method: "get",
      path: "/v1/secrets",
      access: "admin",
      operation: "listSecrets",
      summary: "Secrets by owner and name, without their values.",
      answer: list,
    }, async () => ({
      secrets: (await secrets.list()).map(({ name, campaign, setAt, setBy }) => ({
        name,
        campaign,
        set_at: new Date(setAt).toISOString(),
        set_by: setBy,
      })),
    })),
    route(
      {
        method: "put",
        path: "/v1/secrets/{name}",
        access: "admin",
        operation: "setSecret",
        summary: "Keep a secret, sealed, in the place of an earlier one.",
        params,
        body: wanted,
        answer: null,
      },
      async ({ params: { name }, body: { value, campaign }, caller }) =>
        await secrets.set(ownerOf(campaign), name, value, nameOf(caller)),
    ),
    route(
      {
        method: "delete",
        path: "/v1/secrets/{name}",
        access: "admin",
        operation: "deleteSecret",
        summary: "Remove a secret.",
        params,
        query,
        answer: null,
      },
      async ({ params: { name }, query: { campaign }, caller }) =>
        await secrets.delete(ownerOf(campaign), name, nameOf(caller)),
    ),
  ];
}
