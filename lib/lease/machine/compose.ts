/** @module A worker of its parts: the same in a process of its own and inside `serve`. */

import type { Cas } from "../../cas/mod.ts";
import {
  type Log,
  type Processes,
  removeBeneath,
  systemClock,
  systemIds,
  writeBeneath,
} from "../../home/mod.ts";
import {
  AgentRunner,
  EvaluationRunner,
  Inputs,
  type SessionFiles,
  type Site,
} from "../../job/mod.ts";
import { redaction } from "../../secret/mod.ts";
import { GitVcs } from "../../vcs/mod.ts";
import type { HttpClient } from "../../net/mod.ts";
import type { Registration } from "../client.ts";
import { HttpLeaseClient } from "../http_client.ts";
import { LeaseWorker } from "../worker.ts";
import { sendOver } from "../worker_send.ts";
import { DISK_RESERVE, type HostSample } from "../wire.ts";
import { nextIncarnation } from "./incarnation.ts";
import { doorSockets } from "./door_sockets.ts";
import { SocketRelay } from "./relay.ts";
import { FileSpool } from "./spool_files.ts";

/** What a worker on this machine is made of. */
export interface WorkerParts {
  /** Dials the server, with the worker's credential. */
  readonly http: HttpClient;
  readonly cas: Cas;
  readonly processes: Processes;
  readonly sessions: SessionFiles;
  readonly sampleHost: () => Promise<HostSample>;
  /** The home, without links in its path. */
  readonly home: string;
  /** The argv that runs this program. */
  readonly self: readonly string[];
  /** Names this worker's incarnation file: {@linkcode lockKey}, whose lock the process holds. */
  readonly key: string;
  readonly log: Log;
  readonly pool: string;
  readonly version: string;
  readonly labels?: readonly string[];
  readonly once?: boolean;
  readonly orphanExitSeconds?: number | null;
  /** Free this many bytes of the home's disk after a report, as far as cached inputs can. Default 0. */
  readonly minFreeBytes?: number;
  readonly onRegistered?: (registration: Registration) => void;
}

/** Make the worker of `parts`; it starts with `run`. */
export async function composeWorker(parts: WorkerParts): Promise<LeaseWorker> {
  const { http, cas, processes, sessions, sampleHost, home, log, minFreeBytes = 0 } = parts;
  const clock = systemClock;
  const ids = systemIds;
  const client = new HttpLeaseClient(http);
  const send = sendOver(client, clock, ids);
  const site: Site = {
    home,
    worker: parts.key,
    cas,
    processes,
    sessions,
    redaction,
    relay: new SocketRelay({
      home,
      client,
      sockets: doorSockets(home, parts.key),
      self: parts.self,
      log,
    }),
    clock,
    ids,
    log,
    send,
  };
  const shared = { vcs: { git: new GitVcs(site) }, inputs: new Inputs(site) };
  const evaluations = new EvaluationRunner(site, shared);
  const agents = new AgentRunner(site, shared);
  return new LeaseWorker({
    client,
    clock,
    ids,
    log,
    cas,
    sampleHost,
    runners: [evaluations, agents],
    evaluators: ["process"],
    spool: new FileSpool(home, log),
    incarnation: await nextIncarnation(home, parts.key, ids, log),
    pool: parts.pool,
    version: parts.version,
    labels: parts.labels ?? [],
    once: parts.once ?? false,
    orphanExitSeconds: parts.orphanExitSeconds ?? null,
    host: {
      reserve: DISK_RESERVE,
      makeRoom: async (bytes) => void await evaluations.evictInputs(bytes),
      check: () => writesTo(home, ids.uuid()),
    },
    onSettled: async () => {
      if (minFreeBytes === 0) return;
      const { disk_free: free } = await sampleHost();
      if (free < minFreeBytes) await evaluations.evictInputs(minFreeBytes - free);
    },
    ...(parts.onRegistered === undefined ? {} : { onRegistered: parts.onRegistered }),
  });
}

/** Rejects when the home takes no file of a few kilobytes, as a full or broken disk does. */
async function writesTo(home: string, id: string): Promise<void> {
  const path = `tmp/.check-${id}`;
  const what = "a check of the home";
  try {
    await writeBeneath(home, path, new Uint8Array(16_384).fill(1), { what });
  } finally {
    await removeBeneath(home, path, { what });
  }
}
