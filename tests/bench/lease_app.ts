/**
 * @module What the lease benchmarks serve: the production store, engine, routes and authentication on a database file,
 * and a kind of job that does nothing.
 */

import { type Cas, openMemory } from "../../lib/cas/mod.ts";
import { type Clock, nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import { type JobKind, LeaseEngine, LeaseRoutes, type Pool } from "../../lib/lease/mod.ts";
import { Authenticator, HttpsNetwork, serveHttp, Tokens } from "../../lib/net/mod.ts";
import { type Db, openSqlite } from "../../lib/store/mod.ts";

/** What the workers of the benchmarks say of their machines. */
export const SAMPLE = {
  at: "2026-01-01T00:00:00.000Z",
  cpus: 2,
  load1: 0.5,
  memory_available: 8e9,
  disk_free: 1e11,
};

/** What a bench server prints when it is ready. */
export interface ServerReady {
  readonly port: number;
  /** By worker. */
  readonly tokens: readonly string[];
  /** A blob that its CAS holds. */
  readonly probe: string;
}

/** An engine on `db`, started, with one pool, `lab`. */
export async function startEngine(
  db: Db,
  kind: JobKind,
  { pool = {}, cas = openMemory(), clock = systemClock }: {
    pool?: Pool;
    cas?: Cas;
    clock?: Clock;
  } = {},
): Promise<LeaseEngine> {
  const engine = new LeaseEngine({
    db,
    cas,
    clock,
    ids: systemIds,
    log: nullLog,
    kinds: [kind],
    timing: { renew: 10, grace: 50, toleration: 300 },
    pools: { lab: pool },
  });
  await engine.start();
  return engine;
}

/** Serve the database at `path` on loopback to so many workers, each with a token. */
export async function serveLeases(
  path: string,
  workers: number,
  kind: JobKind,
  pool: Pool,
): Promise<{ db: Db; engine: LeaseEngine; ready: ServerReady }> {
  const db = await openSqlite(path);
  const cas = openMemory();
  const engine = await startEngine(db, kind, { pool, cas });
  const tokens = new Tokens(db, systemClock);
  const secrets = await Promise.all(
    Array.from(
      { length: workers },
      () => tokens.create(`w-${crypto.randomUUID()}`, { access: "worker" }),
    ),
  );
  const network = await HttpsNetwork.open({
    provider: "https",
    listen: null,
    tls: null,
    url: null,
  });
  const routes = new LeaseRoutes(engine, new Authenticator(tokens, network), {
    version: "bench",
    send: () => Promise.resolve([]),
  });
  const server = await serveHttp({
    fetch: (request, peer) =>
      routes.answer(request, peer) ?? new Response("no such path", { status: 404 }),
    listen: { host: "127.0.0.1", port: 0 },
  });
  const probe = await cas.put(new TextEncoder().encode("probe"));
  return { db, engine, ready: { port: server.addr?.port ?? 0, tokens: secrets, probe } };
}
