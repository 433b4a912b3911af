/**
 * @module A lease server for the benchmark, in a process of its own: the production store, engine, routes and
 * authentication on a database file, and a kind of job that does nothing. `lease_server.ts FILE WORKERS`.
 */

import { Hono } from "hono";
import { openMemory } from "../../lib/cas/mod.ts";
import { nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import { LeaseEngine, leaseRoutes } from "../../lib/lease/mod.ts";
import {
  authenticate,
  HttpsNetwork,
  type NetEnv,
  onError,
  serveHttp,
  Tokens,
} from "../../lib/net/mod.ts";
import { openSqlite } from "../../lib/store/mod.ts";
import { IdleKind } from "./lease_queue.ts";

/** What it prints when it is ready. */
export interface ServerReady {
  readonly port: number;
  /** By worker. */
  readonly tokens: readonly string[];
  /** A blob that its CAS holds. */
  readonly probe: string;
}

export async function serve(path: string, workers: number): Promise<void> {
  const db = await openSqlite(path);
  const cas = openMemory();
  const engine = new LeaseEngine({
    db,
    cas,
    clock: systemClock,
    ids: systemIds,
    log: nullLog,
    kinds: [new IdleKind()],
    timing: { renew: 10, grace: 50, toleration: 300 },
    pools: { lab: {} },
  });
  await engine.start();
  const tokens = new Tokens(db, systemClock);
  const secrets: string[] = [];
  for (let n = 0; n < workers; n++) {
    secrets.push(await tokens.create(`w${n}-${crypto.randomUUID()}`, { access: "worker" }));
  }
  const network = await HttpsNetwork.open({
    provider: "https",
    listen: null,
    tls: null,
    url: null,
  });
  const app = new Hono<NetEnv>();
  app.use("*", authenticate(tokens, network));
  app.route("/", leaseRoutes(engine, { version: "bench", send: () => Promise.resolve([]) }));
  app.onError(onError("executor", nullLog));
  const server = await serveHttp({
    fetch: (request, peer) => app.fetch(request, peer),
    listen: { host: "127.0.0.1", port: 0 },
  });
  const probe = await cas.put(new TextEncoder().encode("probe"));
  const ready: ServerReady = { port: server.addr?.port ?? 0, tokens: secrets, probe };
  console.log(JSON.stringify(ready));
}

if (import.meta.main) {
  const [path = "", workers = "1"] = Deno.args;
  await serve(path, Number(workers));
}
