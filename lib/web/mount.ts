/** @module Serving routes with Hono: access, the checks of what comes in, and the answer. */

import type { Hono, MiddlewareHandler } from "hono";
import type * as z from "zod";
import { SubletError } from "../home/mod.ts";
import { issueText, type NetEnv, readJson, requireAccess } from "../net/mod.ts";
import { type ApiContext, Raw, type Route } from "./route.ts";

/** The most bytes of a request's body. */
const MAX_BODY = 1024 * 1024;

/** Serve `route` on `app`. `authenticate` finds out who calls. */
export function mount(
  app: Hono<NetEnv>,
  route: Route,
  authenticate: MiddlewareHandler<NetEnv>,
): void {
  const path = route.path.replace(/\{(\w+)\+\}/g, ":$1{[^]+}").replace(/\{(\w+)\}/g, ":$1");
  const guards = route.access === null ? [] : [authenticate, requireAccess(route.access)];
  app.on(route.method.toUpperCase(), [path], ...guards, async (c) => {
    const result = await route.run({
      params: parse(route.params, c.req.param(), "the path"),
      query: parse(route.query, c.req.query(), "the query"),
      body: route.body === undefined ? {} : await bodyOf(c, route.body),
      caller: route.access === null ? null : c.get("caller"),
      signal: c.req.raw.signal,
    });
    return answer(c, route, result);
  });
}

/** The body's JSON. None at all is an empty object, for calls whose every field is optional. */
async function bodyOf(c: ApiContext, schema: z.ZodType): Promise<unknown> {
  const { body, headers } = c.req.raw;
  const empty = body === null || headers.get("content-length") === "0";
  return empty ? parse(schema, {}, "the body") : await readJson(c.req.raw, schema, MAX_BODY);
}

function answer(c: ApiContext, route: Route, result: unknown): Response {
  if (result instanceof Raw) return result.response;
  if (route.answer === null) return c.body(null, 204);
  return c.json(result as object, route.status ?? 200);
}

function parse(schema: z.ZodType | undefined, value: unknown, where: string): unknown {
  if (schema === undefined) return {};
  const checked = schema.safeParse(value);
  if (checked.success) return checked.data;
  throw new SubletError("invalid_request", `${where} is refused: ${issueText(checked.error)}`);
}
