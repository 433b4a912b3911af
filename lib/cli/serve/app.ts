/** @module Every route of the server, behind the question who calls. */

import { Hono } from "hono";
import { type Log, systemClock } from "../../home/mod.ts";
import { leaseRoutes } from "../../lease/mod.ts";
import { authenticate, type NetEnv, onError, onNotFound } from "../../net/mod.ts";
import { createApi } from "../../web/mod.ts";
import { VERSION } from "../version.ts";
import type { Parts } from "./compose.ts";
import type { Settings } from "./settings.ts";

/** The server's app. `urls` are where it listens, filled in once it does; `closing` answers every long-poll. */
export function serverApp(
  { network }: Settings,
  { cas, engine, evaluations, limits, tokens }: Parts,
  urls: readonly string[],
  closing: AbortSignal,
  log: Log,
): Hono<NetEnv> {
  const app = new Hono<NetEnv>();
  app.notFound(onNotFound((path) => path.startsWith("/v1/executor/") ? "executor" : "api"));
  const who = authenticate(tokens, network);
  const executor = new Hono<NetEnv & { Variables: { peer: NetEnv["Bindings"] } }>();
  executor.onError(onError("executor", log));
  executor.use("/v1/executor/*", who, async (c, next) => {
    c.set("peer", c.env);
    await next();
  });
  executor.route(
    "/",
    leaseRoutes(engine, {
      version: VERSION,
      send: (_caller, repo, revisions, have, wait, signal) =>
        evaluations.send(repo, revisions, have, wait, signal),
    }),
  );
  app.route("/", executor);
  app.route(
    "/",
    createApi({
      cas,
      engine,
      evaluations,
      limits,
      tokens,
      authenticate: who,
      clock: systemClock,
      log,
      closing,
      server: {
        version: VERSION,
        pid: Deno.pid,
        startedAt: systemClock.now(),
        urls: () => urls,
      },
    }),
  );
  return app;
}
