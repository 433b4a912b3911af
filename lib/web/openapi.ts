/** @module The API's document: OpenAPI 3.1, from the routes that are served. */

import * as z from "zod";
import { name, named, type Route } from "./route.ts";

/** The body of every refusal. */
export const errorBody = name(
  "Error",
  z.object({
    code: z.string().describe("A stable code, such as `not_found`."),
    message: z.string().describe("What happened, and what to do."),
  }),
);

type Json = Record<string, unknown>;

/** The document of `routes`, for a server of `version`. */
export function openApi(routes: readonly Route[], version: string): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replaceAll("+}", "}");
    paths[path] = { ...paths[path], [route.method]: operationOf(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "sublet",
      version,
      description: "Campaigns, evaluations, jobs and workers of a server. Times are ISO 8601 UTC.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    paths,
    components: {
      schemas: schemas(),
      securitySchemes: {
        token: {
          type: "http",
          scheme: "bearer",
          description: "A token of `sublet token create`. The home's Unix socket needs none.",
        },
      },
    },
  };
}

function operationOf(route: Route): Json {
  return {
    operationId: route.operation,
    summary: route.summary,
    ...(route.access === null
      ? { security: [] }
      : { description: `Access: ${route.access}.`, security: [{ token: [] }] }),
    parameters: [...parametersOf(route, "path"), ...parametersOf(route, "query")],
    ...(route.body === undefined
      ? {}
      : { requestBody: { required: true, content: json(refOf(route.body)) } }),
    responses: {
      ...answerOf(route),
      default: { description: "A refusal.", content: json(refOf(errorBody)) },
    },
  };
}

function answerOf({ answer, status, summary }: Route): Json {
  if (answer === null) return { "204": { description: "Done." } };
  const bytes = answer === "application/json"
    ? { type: "object" }
    : { type: "string", format: "binary" };
  const content = typeof answer === "string"
    ? { [answer]: { schema: bytes } }
    : json(refOf(answer));
  return { [String(status ?? 200)]: { description: summary, content } };
}

function parametersOf(route: Route, place: "path" | "query"): Json[] {
  const schema = place === "path" ? route.params : route.query;
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = plain(schema) as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([key, { description, ...rest }]) => ({
    name: key,
    in: place,
    required: place === "path" || required.includes(key),
    ...(description === undefined ? {} : { description }),
    schema: rest,
  }));
}

function json(schema: Json): Json {
  return { "application/json": { schema } };
}

function refOf(schema: z.ZodType): Json {
  const entry = named.get(schema);
  if (entry === undefined) throw new TypeError("a body or an answer of a route has no name");
  return { $ref: uri(entry.id) };
}

function uri(id: string): string {
  return `#/components/schemas/${id}`;
}

function plain(schema: z.ZodType): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: "input" });
  return rest;
}

function schemas(): Record<string, Json> {
  const made = z.toJSONSchema(named, { uri, io: "input" });
  return Object.fromEntries(
    Object.entries(made.schemas).map(([id, { $schema: _, $id: __, ...schema }]) => [id, schema]),
  );
}
