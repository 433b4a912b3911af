/** @module Every route of the server, behind the question who calls. */

import { Hono } from "hono";
import { type Log, systemClock } from "../../home/mod.ts";
import { SecretBook } from "../../job/mod.ts";
import { LeaseRoutes } from "../../lease/mod.ts";
import {
  authenticate,
  Authenticator,
  type NetEnv,
  onNotFound,
  type ServeOptions,
} from "../../net/mod.ts";
import { AgentCommands, createApi } from "../../web/mod.ts";
import { VERSION } from "../version.ts";
import type { Parts } from "./compose.ts";
import type { Settings } from "./settings.ts";

/** What answers every request. `urls` are where it listens, filled in once it does; `closing` answers every long-poll. */
export function serverApp(
  { network }: Settings,
  parts: Parts,
  urls: readonly string[],
  closing: AbortSignal,
  log: Log,
): ServeOptions["fetch"] {
  const { cas, db, engine, evaluations, agents, streams, secrets, agentSecrets, limits, tokens } =
    parts;
  const workers = new LeaseRoutes(engine, new Authenticator(tokens, network), {
    version: VERSION,
    log,
    send: (_caller, repo, revisions, have, wait, signal) =>
      evaluations.send(repo, revisions, have, wait, signal),
    commands: new AgentCommands({ engine, evaluations, agents, cas, log }),
    secrets: {
      kind: agents.kind.kind,
      names: (job) => agentSecrets.names(job.id),
      values: (tx, job, names) => agentSecrets.values(tx, job.key, names),
    },
    saved: {
      check: (part) => streams.check(part),
      append: async (tx, job, part) => {
        await streams.append(tx, job.id, part);
        if (job.kind === agents.kind.kind) await agents.saved(tx, job.key, part);
      },
    },
  });
  const app = new Hono<NetEnv>();
  app.notFound(onNotFound(() => "api"));
  app.route(
    "/",
    createApi({
      cas,
      engine,
      evaluations,
      agents,
      streams,
      secrets: new SecretBook(db, secrets, log),
      limits,
      tokens,
      authenticate: authenticate(tokens, network),
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
  return (request, peer) => workers.answer(request, peer) ?? app.fetch(request, peer);
}
