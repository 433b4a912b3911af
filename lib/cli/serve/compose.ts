/** @module A server of its parts: store, tokens, leases, evaluations, routes. Nothing listens yet. */

import { type Cas, SeenAnywhere, StatIndex, tend } from "../../cas/mod.ts";
import { type Log, messageOf, systemClock, systemIds } from "../../home/mod.ts";
import {
  Agents,
  AgentSecrets,
  agentTables,
  Evaluations,
  streamOwner,
  Streams,
} from "../../job/mod.ts";
import { systemProcesses } from "../../lease/machine/mod.ts";
import { LeaseEngine, Limits, type Pool } from "../../lease/mod.ts";
import { Tokens } from "../../net/mod.ts";
import { openSecrets, type Secrets } from "../../secret/mod.ts";
import { type Db, openSqlite } from "../../store/mod.ts";
import { GitVcs } from "../../vcs/mod.ts";
import { openTable } from "../home_cas.ts";
import type { Settings } from "./settings.ts";

/** The parts of a server that other parts are made of. */
export interface Parts extends AsyncDisposable {
  readonly db: Db;
  readonly cas: Cas;
  readonly tokens: Tokens;
  readonly engine: LeaseEngine;
  readonly evaluations: Evaluations;
  readonly agents: Agents;
  readonly streams: Streams;
  readonly secrets: Secrets;
  readonly agentSecrets: AgentSecrets;
  readonly limits: Limits;
}

/** Open the database and the store, and make the engine over them. It is not started. */
export async function compose(settings: Settings, log: Log): Promise<Parts> {
  const { config, paths } = settings;
  const cas = await openTable(config.cas, paths);
  const tending = tend(cas, log);
  const db = await openSqlite(paths.db);
  const clock = systemClock;
  const ids = systemIds;
  const vcs = new GitVcs({ processes: systemProcesses({ log }), clock, ids, log });
  const index = await openIndex(paths.seen, log);
  const seen = index === null ? {} : { seen: new SeenAnywhere(index) };
  const evaluations = new Evaluations({ db, cas, vcs, clock, log, ...seen });
  const streams = new Streams({ db, cas, clock, log, owner: streamOwner });
  const secrets = await openSecrets(config.secrets, { home: paths.root, clock });
  const tables = agentTables(config, paths.config);
  const agents = new Agents({
    db,
    cas,
    vcs,
    clock,
    ids,
    log,
    home: paths.root,
    tables,
    streams,
    ...seen,
  });
  const { executor } = config;
  const pools = Object.fromEntries(
    Object.entries(executor.pools).map(([name, pool]) => [name, {
      agents: pool.agents,
      evaluations: pool.evaluations,
      min_memory_gb: pool.minMemoryGb,
      max_load: pool.maxLoad,
    }]),
  );
  const engine = new LeaseEngine({
    db,
    cas,
    clock,
    ids,
    log,
    kinds: [evaluations.kind, agents.kind],
    timing: {
      renew: executor.renewSeconds,
      grace: executor.graceSeconds,
      toleration: executor.tolerationSeconds,
    },
    pools,
    keepDays: executor.keepDays,
  });
  const apply = (limited: Readonly<Record<string, Pool>>) => engine.setPools(limited);
  const limits = new Limits({ db, clock, log, pools, apply });
  evaluations.bind(engine);
  agents.bind(engine);
  return {
    db,
    cas,
    tokens: new Tokens(db, clock),
    engine,
    evaluations,
    agents,
    streams,
    secrets,
    agentSecrets: new AgentSecrets(db, cas, secrets),
    limits,
    [Symbol.asyncDispose]: async () => {
      await engine.close();
      await evaluations.idle();
      await agents.idle();
      await index?.[Symbol.asyncDispose]();
      await db[Symbol.asyncDispose]();
      await tending[Symbol.asyncDispose]();
      if (Symbol.asyncDispose in cas) {
        await (cas as unknown as AsyncDisposable)[Symbol.asyncDispose]();
      }
    },
  };
}

/** What is known of files that were stored before, or null when that cannot be used: then they are read again. */
async function openIndex(path: string, log: Log): Promise<StatIndex | null> {
  try {
    return await StatIndex.open(path);
  } catch (error) {
    log.event("store.no_index", { error: messageOf(error) });
    return null;
  }
}
