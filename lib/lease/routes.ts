/**
 * @module The calls of workers over HTTP: `POST /v1/executor/<call>`, piloop's worker protocol 7. Shapes are those of
 * `wire.ts`; a refusal is `{error, detail}`. `authenticate` before them says who calls.
 */

import { Hono } from "hono";
import type { Cid } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { SavedPart } from "../job/mod.ts";
import type { Caller, NetEnv } from "../net/mod.ts";
import type { Tx } from "../store/mod.ts";
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
import { MAX_POLL_SECONDS, ONCE_HEADER, PROTOCOL, requests, SUCCEEDS_HEADER } from "./wire.ts";

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

/** What the routes need beyond the engine. */
export interface LeaseRouteOptions {
  readonly send: SendVersions;
  /** Default: there is no such call. */
  readonly saved?: SavedParts;
  /** The server's version, for the refusal of another protocol. */
  readonly version: string;
}

type Handler = (c: Call, worker: WorkerCaller) => Promise<Response>;

/** The routes, to be mounted at the root. */
export function leaseRoutes(
  engine: LeaseEngine,
  options: LeaseRouteOptions,
): Hono<NetEnv> {
  const app = new Hono<NetEnv>();
  const calls = {
    ...leaseCalls(engine, options),
    ...repoCalls(engine, options),
    ...savedCalls(engine, options),
  };
  for (const [call, handler] of Object.entries(calls)) {
    app.post(`/v1/executor/${call}`, async (c) => {
      try {
        return await handler(c, callerOf(c, call !== "send"));
      } catch (error) {
        return refusal(error);
      }
    });
  }
  return app;
}

function leaseCalls(engine: LeaseEngine, { version }: LeaseRouteOptions): Record<string, Handler> {
  return {
    register: async (c, worker) => {
      const body = await readRequestAfter(
        c,
        (raw) => checkProtocol(raw, version),
        requests.register,
      );
      const once = c.req.header(ONCE_HEADER) === "1";
      const caller = { ...worker, succeeds: processHeader(c, SUCCEEDS_HEADER) };
      return c.json(await engine.register(caller, { ...body, casProbe: body.cas_probe, once }));
    },
    acquire: async (c, worker) => {
      const body = await readRequest(c, requests.acquire);
      return c.json(await engine.acquire(worker, body.request_id, body.sample));
    },
    started: async (c, worker) => {
      const body = await readRequest(c, requests.started);
      await engine.started(worker, body.lease, body.handle, body.session_id);
      return c.body(null, 204);
    },
    heartbeat: async (c, worker) => {
      const body = await readRequest(c, requests.heartbeat);
      const leases = new Map(
        Object.entries(body.leases).map(([id, session]) => [Number(id), session]),
      );
      return c.json(Object.fromEntries(await engine.heartbeat(worker, leases, body.sample)));
    },
    report: async (c, worker) => {
      const body = await readRequest(c, requests.report);
      return c.json(await engine.report(worker, body.lease, body.request_id, body.report));
    },
    lost: async (c, worker) => {
      const body = await readRequest(c, requests.lost);
      await engine.lost(worker, body.lease, body.reason);
      return c.body(null, 204);
    },
    // Ours: piloop's server answers 404.
    leave: async (c, worker) => {
      await engine.leave(worker);
      return c.body(null, 204);
    },
    messages: async (c, worker) => {
      const body = await readRequest(c, requests.messages);
      const found = await engine.messages(worker, body.after, body.wait, c.req.raw.signal);
      return found.length === 0 ? c.body(null, 204) : c.json(found);
    },
    queued: async (c, worker) => {
      const body = await readRequest(c, requests.queued);
      await engine.queued(worker, body.message, body.error);
      return c.body(null, 204);
    },
  };
}

/** Ours: piloop's server answers 404. */
function savedCalls(engine: LeaseEngine, { saved }: LeaseRouteOptions): Record<string, Handler> {
  if (saved === undefined) return {};
  return {
    saved: async (c, worker) => {
      const part = await readRequest(c, requests.saved);
      await saved.check(part);
      await engine.holding(worker, part.lease, (tx, job) => saved.append(tx, job, part));
      return c.body(null, 204);
    },
  };
}

function repoCalls(engine: LeaseEngine, { send }: LeaseRouteOptions): Record<string, Handler> {
  return {
    send: async (c, worker) => {
      const { repo, revisions, have, wait } = await readRequest(c, requests.send);
      if (!await engine.worksOn(worker, repo)) {
        throw new SubletError(
          "not_sent",
          `${worker.name} holds no live lease on a job of repo ${repo}, so it gets none of its versions`,
        );
      }
      const seconds = Math.min(wait, MAX_POLL_SECONDS);
      const found = await asNotSent(() =>
        send(c.get("caller"), repo, revisions, have, seconds, c.req.raw.signal)
      );
      return found === null ? c.body(null, 204) : c.json(found);
    },
    secrets: async (c) => await noAgent((await readRequest(c, requests.secrets)).lease),
    cli: async (c) => await noAgent((await readRequest(c, requests.cli)).lease),
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
