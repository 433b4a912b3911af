/** @module The API's routes of tokens. */

import * as z from "zod";
import type { Tokens } from "../net/mod.ts";
import { name, type Route, route } from "./route.ts";
import { time } from "./schemas.ts";

const access = z.enum(["read", "act", "admin", "worker"]);

const token = name(
  "Token",
  z.object({
    name: z.string(),
    access,
    pool: z.string().nullable().describe("The only pool that a worker with it may join."),
    created_at: time,
    expires_at: time.nullable(),
  }),
);

const list = name("TokenList", z.object({ tokens: z.array(token) }));

const wanted = name(
  "NewToken",
  z.object({
    name: z.string().max(64).describe("Who gets it; a worker's token names the worker."),
    access: access.default("worker"),
    pool: z.string().max(64).nullable().default(null),
    expires_at: z.iso.datetime({ offset: true }).nullable().default(null)
      .describe("ISO 8601. Null: never."),
  }),
);

const secret = name(
  "TokenSecret",
  z.object({
    name: z.string(),
    secret: z.string().describe("Shown this once: only its hash is kept."),
  }),
);

/** The routes of tokens. */
export function tokenRoutes(tokens: Tokens): Route[] {
  return [
    route({
      method: "get",
      path: "/v1/tokens",
      access: "admin",
      operation: "listTokens",
      summary: "Tokens by name, without their secrets.",
      answer: list,
    }, async () => {
      const all = await tokens.list();
      return {
        tokens: all.map(({ name, access, pool, createdAt, expiresAt }) => ({
          name,
          access,
          pool,
          created_at: new Date(createdAt).toISOString(),
          expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString(),
        })),
      };
    }),
    route({
      method: "post",
      path: "/v1/tokens",
      access: "admin",
      operation: "createToken",
      summary: "Make a token.",
      body: wanted,
      answer: secret,
      status: 201,
    }, async ({ body: { name, access, pool, expires_at } }) => {
      const expiresAt = expires_at === null ? null : Date.parse(expires_at);
      return { name, secret: await tokens.create(name, { access, pool, expiresAt }) };
    }),
    route({
      method: "delete",
      path: "/v1/tokens/{name}",
      access: "admin",
      operation: "revokeToken",
      summary: "Revoke a token: its next call is refused.",
      params: z.object({ name: z.string().max(64) }),
      answer: null,
    }, async ({ params }) => await tokens.revoke(params.name)),
  ];
}
