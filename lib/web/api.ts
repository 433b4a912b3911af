/** @module The HTTP API of the command line, from the ports of a server. */

import { Hono, type MiddlewareHandler } from "hono";
import { HTTPException } from "hono/http-exception";
import type { Cas } from "../cas/mod.ts";
import { type Clock, type Log, SubletError } from "../home/mod.ts";
import type { Agents, Evaluations, SecretBook, Streams } from "../job/mod.ts";
import type { Limits } from "../lease/mod.ts";
import { type NetEnv, onError, type Tokens } from "../net/mod.ts";
import { agentRoutes } from "./agent_routes.ts";
import { campaignRoutes } from "./campaign_routes.ts";
import type { ApiEngine } from "./engine_port.ts";
import { evaluationRoutes } from "./evaluation_routes.ts";
import { jobRoutes } from "./job_routes.ts";
import { limitRoutes } from "./limit_routes.ts";
import { logRoutes } from "./log_routes.ts";
import { mount } from "./mount.ts";
import { openApi } from "./openapi.ts";
import { checkPool } from "./requests.ts";
import { Raw, type Route, route } from "./route.ts";
import { secretRoutes } from "./secret_routes.ts";
import { type ServerInfo, statusRoutes } from "./status_routes.ts";
import { streamRoutes } from "./stream_routes.ts";
import { tokenRoutes } from "./token_routes.ts";
import { workerRoutes } from "./worker_routes.ts";

/** What the API is made of. */
export interface ApiDeps {
  readonly cas: Cas;
  readonly engine: ApiEngine;
  readonly evaluations: Evaluations;
  readonly agents: Agents;
  readonly streams: Streams;
  readonly secrets: SecretBook;
  readonly limits: Limits;
  readonly tokens: Tokens;
  readonly clock: Clock;
  readonly log: Log;
  readonly server: ServerInfo;
  /** Finds out who calls: `authenticate(tokens, network)` of lib/net. */
  readonly authenticate: MiddlewareHandler<NetEnv>;
  /** Aborts when the server stops: whoever waits is answered at once. */
  readonly closing: AbortSignal;
}

/**
 * The API as an app: `app.fetch(request, peer)` with the peer in its environment. Every refusal is `{code, message}`.
 * Its document is at `/v1/openapi.json`.
 */
export function createApi(deps: ApiDeps): Hono<NetEnv> {
  const app = new Hono<NetEnv>();
  for (const each of apiRoutes(deps)) mount(app, each, deps.authenticate);
  const answer = onError("api", deps.log);
  app.onError((error, c) => answer(ours(error), c));
  app.notFound((c) => {
    const message =
      `there is no ${c.req.method} ${c.req.path}: /v1/openapi.json lists what there is`;
    return answer(new SubletError("not_found", message), c);
  });
  return app;
}

/** Every route of the API. */
export function apiRoutes(deps: ApiDeps): Route[] {
  const {
    engine,
    evaluations,
    agents,
    streams,
    secrets,
    limits,
    cas,
    server,
    clock,
    tokens,
    closing,
  } = deps;
  const pools = () => engine.listPools().map(({ pool }) => pool);
  const routes = [
    ...statusRoutes(engine, limits, agents, server, clock),
    ...campaignRoutes(evaluations),
    ...evaluationRoutes(evaluations, pools, closing),
    ...agentRoutes({
      agents,
      evaluations,
      checkPool: (pool) => checkPool(pool, pools()),
      closing,
    }),
    ...jobRoutes(engine, evaluations, agents),
    ...logRoutes(engine, evaluations, agents, cas),
    ...streamRoutes({ streams, agents, engine, closing }),
    ...workerRoutes(engine),
    ...limitRoutes(limits),
    ...tokenRoutes(tokens),
    ...secretRoutes(secrets),
  ];
  routes.push(documentRoute(() => openApi(routes, server.version)));
  return routes;
}

function documentRoute(make: () => Record<string, unknown>): Route {
  let text: string | null = null;
  return route({
    method: "get",
    path: "/v1/openapi.json",
    access: null,
    operation: "document",
    summary: "This document.",
    answer: "application/json",
  }, () => {
    text ??= JSON.stringify(make());
    const headers = { "content-type": "application/json" };
    return Promise.resolve(new Raw(new Response(text, { headers })));
  });
}

/** What Hono itself refuses is the request's fault. */
function ours(error: Error): Error {
  if (!(error instanceof HTTPException) || error.status >= 500) return error;
  return new SubletError("invalid_request", error.message);
}
