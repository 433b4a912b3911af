/** @module A route of the HTTP API as data: what it takes, what it answers, who may call it. Routes serve and document. */

import type { Context } from "hono";
import * as z from "zod";
import type { Access, Caller, NetEnv } from "../net/mod.ts";

/** JSON schemas with a name of their own in the API's document. */
export const named = z.registry<{ id: string }>();

/** Give `schema` the name `id` in the API's document. */
export function name<T extends z.ZodType>(id: string, schema: T): T {
  named.add(schema, { id });
  return schema;
}

/** What a request brings, checked. */
export interface Input<P, Q, B> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  /** Absent on a route without access. */
  readonly caller: Caller | null;
  /** Aborts when the caller is gone. */
  readonly signal: AbortSignal;
}

/** An answer that is no JSON. */
export class Raw {
  constructor(readonly response: Response) {}
}

/** What a route is, without what it does. */
export interface RouteSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> {
  readonly method: "get" | "post" | "put" | "delete";
  /** Such as `/v1/jobs/{id}`; a last part `{path+}` takes several parts. */
  readonly path: string;
  /** Null: anybody, without a token. */
  readonly access: Access | null;
  /** Names the call in the API's document. */
  readonly operation: string;
  /** What it does, in a sentence or two. */
  readonly summary: string;
  readonly params?: P;
  readonly query?: Q;
  /** Of {@linkcode name}. */
  readonly body?: B;
  /** The answer's JSON, of {@linkcode name}; null: no content. A media type: its bytes. */
  readonly answer: z.ZodType | null | string;
  /** Its status. Default 200, or 204 for no content. */
  readonly status?: 201;
}

/** What a handler gives for an answer of JSON, of its schema's type. */
type Answer<A> = A extends z.ZodType ? z.input<A> : A extends null ? void : Raw;

/** A route that is served. */
export interface Route extends RouteSpec<z.ZodType, z.ZodType, z.ZodType> {
  readonly run: (input: Input<unknown, unknown, unknown>) => Promise<unknown>;
}

const nothing = z.object({});

/** A route and its handler. The handler throws a `SubletError` for a refusal. */
export function route<
  A extends z.ZodType | null | string,
  P extends z.ZodType = typeof nothing,
  Q extends z.ZodType = typeof nothing,
  B extends z.ZodType = typeof nothing,
>(
  spec: RouteSpec<P, Q, B> & { readonly answer: A },
  run: (input: Input<z.output<P>, z.output<Q>, z.output<B>>) => Promise<Answer<A>>,
): Route {
  return { ...spec, run: run as Route["run"] };
}

/** A context of our server. */
export type ApiContext = Context<NetEnv>;
