/**
 * @module The calls of workers over HTTP: `POST /v1/executor/<call>`, piloop's worker protocol 7. Shapes are those of
 * `wire.ts`; a refusal is `{error, detail}`.
 */

import type { Cid } from "../cas/mod.ts";
import { type Log, messageOf, nullLog, SubletError } from "../home/mod.ts";
import type { SavedPart } from "../job/mod.ts";
import { type Caller, onError, pathOf, type Peer, type Who } from "../net/mod.ts";
import type { Tx } from "../store/mod.ts";
import type { CommandResult } from "./client.ts";
import type { LeaseEngine } from "./engine.ts";
import type { JobRef } from "./kind.ts";
import type { WorkerCaller } from "./member.ts";
import {
  type Call,
  callerOf,
  processHeader,
  readRequest,
  readRequestAfter,
  refusal,
} from "./route_request.ts";
import {
  HOST_FAULT_HEADER,
  MAX_POLL_SECONDS,
  ONCE_HEADER,
  PROTOCOL,
  requests,
  SUCCEEDS_HEADER,
} from "./wire.ts";

/** Puts versions of a repo of record into the CAS: blobs to take, in order; null: still building. Throws `not_sent`. */
export type SendVersions = (
  caller: Caller,
  repo: number,
  revisions: readonly string[],
  have: readonly string[],
  wait: number,
  signal: AbortSignal,
) => Promise<readonly Cid[] | null>;

/** Takes what jobs write while they run. */
export interface SavedParts {
  /** Whether the store has the part's bytes: throws `missing_blobs` when it lacks them. */
  check(part: SavedPart): Promise<void>;
  /** Add a part of `job`, in the transaction that saw that its lease holds. */
  append(tx: Tx, job: JobRef, part: SavedPart): Promise<void>;
}

/** Gives values of secrets to jobs that name them. */
export interface JobSecrets {
  /** The kind of jobs that may name secrets. */
  readonly kind: string;
  /** The names that the job lists, whoever asks. */
  names(job: JobRef): Promise<string[]>;
  /** Their values by name, in the transaction that saw that the lease holds; those that are not set are left out. */
  values(tx: Tx, job: JobRef, names: readonly string[]): Promise<ReadonlyMap<string, string>>;
}

/** Runs commands of the agents whose leases hold. */
export interface JobCommands {
  /** The kind of jobs that may have commands. */
  readonly kind: string;
  /** What the command came to, also when it is refused. */
  run(
    job: JobRef,
    argv: readonly string[],
    stdin: string | null,
    signal: AbortSignal,
  ): Promise<CommandResult>;
}

/** What the routes need beyond the engine. */
export interface LeaseRouteOptions {
  /** Default: no job has any. */
  readonly commands?: JobCommands;
  /** Default: no job has any. */
  readonly secrets?: JobSecrets;
  readonly send: SendVersions;
  /** Default: there is no such call. */
  readonly saved?: SavedParts;
  /** The server's version, for the refusal of another protocol. */
  readonly version: string;
  /** Where the server's own failures go. Default: nowhere. */
  readonly log?: Log;
}

const PREFIX = "/v1/executor/";

type Handler = (call: Call, worker: WorkerCaller) => Promise<Response>;

/**
 * Answers the calls of workers, and gives null for a path that is none. A worker calls often, and thousands of them wait
 * in a call at once, so there is no router and no middleware: one look-up and one promise for each.
 */
export class LeaseRoutes {
  readonly #calls: ReadonlyMap<string, Handler>;
  readonly #who: Who;
  readonly #failed: ReturnType<typeof onError>;

  constructor(engine: LeaseEngine, who: Who, options: LeaseRouteOptions) {
    const { log = nullLog } = options;
    this.#who = who;
    this.#failed = onError("executor", log);
    this.#calls = new Map(Object.entries({
      ...leaseCalls(engine, options),
      ...repoCalls(engine, options),
      ...savedCalls(engine, options),
      ...secretCalls(engine, options),
      ...commandCalls(engine, options),
    }));
  }

  /** The answer to `request` from `peer`. Null: its path is no worker's. */
  answer(request: Request, peer: Peer): Promise<Response> | null {
    const path = pathOf(request.url);
    return path.startsWith(PREFIX) ? this.#answer(request, peer, path) : null;
  }

  async #answer(request: Request, peer: Peer, path: string): Promise<Response> {
    const { headers } = request;
    try {
      const caller = this.#who.known(headers, peer) ?? await this.#who.identify(headers, peer);
      const name = path.slice(PREFIX.length);
      const handler = request.method === "POST" ? this.#calls.get(name) : undefined;
      if (handler === undefined) {
        throw new SubletError("not_found", `there is no ${request.method} ${path}`);
      }
      const call = { name, request, caller, unix: peer.unix };
      return await handler(call, callerOf(call, name !== "send"));
    } catch (error) {
      return refusal(error) ??
        this.#failed(error instanceof Error ? error : new Error(messageOf(error)), {
          req: { method: request.method, path },
        });
    }
  }
}

function none(): Response {
  return new Response(null, { status: 204 });
}

function leaseCalls(engine: LeaseEngine, { version }: LeaseRouteOptions): Record<string, Handler> {
  return {
    register: async (call, worker) => {
      const body = await readRequestAfter(
        call.request,
        (raw) => checkProtocol(raw, version),
        requests.register,
      );
      const once = call.request.headers.get(ONCE_HEADER) === "1";
      const caller = { ...worker, succeeds: processHeader(call.request, SUCCEEDS_HEADER) };
      return Response.json(
        await engine.register(caller, { ...body, casProbe: body.cas_probe, once }),
      );
    },
    acquire: async (call, worker) => {
      const body = await readRequest(call, requests.acquire);
      return Response.json(await engine.acquire(worker, body.request_id, body.sample));
    },
    started: async (call, worker) => {
      const body = await readRequest(call, requests.started);
      await engine.started(worker, body.lease, body.handle, body.session_id);
      return none();
    },
    heartbeat: async (call, worker) => {
      const body = await readRequest(call, requests.heartbeat);
      const leases = new Map(
        Object.entries(body.leases).map(([id, session]) => [Number(id), session]),
      );
      return Response.json(Object.fromEntries(await engine.heartbeat(worker, leases, body.sample)));
    },
    report: async (call, worker) => {
      const body = await readRequest(call, requests.report);
      return Response.json(await engine.report(worker, body.lease, body.request_id, body.report));
    },
    lost: async (call, worker) => {
      const body = await readRequest(call, requests.lost);
      const fault = call.request.headers.get(HOST_FAULT_HEADER) === "1";
      await engine.lost(worker, body.lease, body.reason, fault ? "machine" : "worker");
      return none();
    },
    // Ours: piloop's server answers 404.
    leave: async (_call, worker) => {
      await engine.leave(worker);
      return none();
    },
    messages: async (call, worker) => {
      const body = await readRequest(call, requests.messages);
      const found = await engine.messages(worker, body.after, body.wait, call.request.signal);
      return found.length === 0 ? none() : Response.json(found);
    },
    queued: async (call, worker) => {
      const body = await readRequest(call, requests.queued);
      await engine.queued(worker, body.message, body.error);
      return none();
    },
  };
}

/** A worker names its lease and no secret: the job in the store says which, so that no worker gets others. */
function secretCalls(
  engine: LeaseEngine,
  { secrets }: LeaseRouteOptions,
): Record<string, Handler> {
  return {
    secrets: async (call, worker) => {
      const { lease } = await readRequest(call, requests.secrets);
      const job = await engine.holding(worker, lease, (_tx, held) => Promise.resolve(held));
      if (secrets === undefined || job.kind !== secrets.kind) return await noAgent(lease);
      const names = await secrets.names(job);
      const values = await engine.holding(
        worker,
        lease,
        (tx, held) => secrets.values(tx, held, names),
      );
      return Response.json(Object.fromEntries(values), {
        headers: { "cache-control": "no-store" },
      });
    },
  };
}

/** The commands of an agent, while its lease holds. */
function commandCalls(
  engine: LeaseEngine,
  { commands }: LeaseRouteOptions,
): Record<string, Handler> {
  return {
    cli: async (call, worker) => {
      const { lease, argv, stdin } = await readRequest(call, requests.cli);
      const job = await engine.holding(worker, lease, (_tx, held) => Promise.resolve(held));
      if (commands === undefined || job.kind !== commands.kind) return await noAgent(lease);
      return Response.json(await commands.run(job, argv, stdin, call.request.signal));
    },
  };
}

/** Ours: piloop's server answers 404. */
function savedCalls(engine: LeaseEngine, { saved }: LeaseRouteOptions): Record<string, Handler> {
  if (saved === undefined) return {};
  return {
    saved: async (call, worker) => {
      const part = await readRequest(call, requests.saved);
      await saved.check(part);
      await engine.holding(worker, part.lease, (tx, job) => saved.append(tx, job, part));
      return none();
    },
  };
}

function repoCalls(engine: LeaseEngine, { send }: LeaseRouteOptions): Record<string, Handler> {
  return {
    send: async (call, worker) => {
      const { repo, revisions, have, wait } = await readRequest(call, requests.send);
      if (!await engine.worksOn(worker, repo)) {
        throw new SubletError(
          "not_sent",
          `${worker.name} holds no live lease on a job of repo ${repo}, so it gets none of its versions`,
        );
      }
      const seconds = Math.min(wait, MAX_POLL_SECONDS);
      const found = await asNotSent(() =>
        send(call.caller, repo, revisions, have, seconds, call.request.signal)
      );
      return found === null ? none() : Response.json(found);
    },
  };
}

/** A worker of protocol 7 takes any other 4xx for its dismissal, so what fails its versions is `not_sent`. */
async function asNotSent<T>(body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    if (!(error instanceof SubletError) || error.status >= 500 || error.code === "busy") {
      throw error;
    }
    throw new SubletError("not_sent", error.message, { cause: error });
  }
}

function noAgent(lease: number): Promise<Response> {
  return Promise.reject(
    new SubletError(
      "stale_lease",
      `lease ${lease} is on no agent's job: only those have this call`,
    ),
  );
}

function checkProtocol(raw: unknown, version: string): void {
  const theirs = raw !== null && typeof raw === "object" && "protocol" in raw
    ? raw.protocol
    : undefined;
  if (theirs === undefined || theirs === PROTOCOL) return;
  throw new SubletError(
    "protocol",
    `the server runs sublet ${version} with worker protocol ${PROTOCOL}, and this worker has protocol ` +
      `${String(theirs)}: install a version with the same protocol on both machines`,
  );
}
