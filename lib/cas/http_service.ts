/**
 * @module The store's HTTP service: `HEAD`, `GET` and `PUT /v1/cas/<cid>`, `POST /v1/cas/missing`, and uploads in parts
 * under `/v1/cas/uploads`. What it says is in docs/store.md.
 *
 * It is asked for many small blobs, so the way to those is short: no router, no promise, one look at the file.
 */

import { type Clock, type Log, nullLog, systemClock } from "../home/mod.ts";
import { SubletError } from "../home/mod.ts";
import { type Caller, checkAccess, pathOf, type Peer, readJson, type Who } from "../net/mod.ts";
import { isCid, parseCid, sameBlob } from "./cid.ts";
import { EMPTY } from "./empty.ts";
import { get, head, quick, type Served } from "./http_get.ts";
import { Gate, type ServiceLimits } from "./http_limits.ts";
import { receive } from "./http_put.ts";
import { Refusal, Refusals } from "./http_refusal.ts";
import { answerUpload } from "./http_uploads.ts";
import { MAX_QUESTION, missingQuestion } from "./http_wire.ts";
import type { Uploads } from "./uploads.ts";

/** How a store is served. */
export interface CasServiceOptions {
  /** Who calls; only those of access `worker` may. Default: anybody. */
  readonly who?: Who;
  readonly limits?: ServiceLimits;
  /** Uploads in parts. Default: there are none. */
  readonly uploads?: Uploads;
  /** Where failures go. Default: nowhere. */
  readonly log?: Log;
  readonly clock?: Clock;
}

const PREFIX = "/v1/cas/";
const CID_LENGTH = 59;

/** Whoever calls from within the process. */
const INSIDE: Peer = { address: null, unix: true };
const ANYBODY: Caller = { name: "anybody", access: "worker", pool: null };

/** A served store. */
export class CasService {
  readonly #cas: Served;
  readonly #who: Who | null;
  readonly #gate: Gate;
  readonly #uploads: Uploads | null;
  readonly #refusals: Refusals;
  readonly #log: Log;

  constructor(cas: Served, options: CasServiceOptions = {}) {
    const { log = nullLog, clock = systemClock } = options;
    this.#cas = cas;
    this.#who = options.who ?? null;
    this.#gate = new Gate(options.limits ?? {}, clock);
    this.#uploads = options.uploads ?? null;
    this.#refusals = new Refusals(log, clock);
    this.#log = log;
  }

  /** The answer to `request`. It never rejects. */
  fetch(request: Request, peer?: Peer): Response | Promise<Response> {
    const path = pathOf(request.url);
    try {
      const answer = this.#quick(request, path, peer ?? INSIDE);
      if (answer !== null) return answer;
    } catch {
      // Whatever failed fails again below, where it is answered.
    }
    return this.#slow(request, path, peer);
  }

  #quick(request: Request, path: string, peer: Peer): Response | null {
    const { method } = request;
    if (method !== "GET" && method !== "HEAD") return null;
    if (path.length !== PREFIX.length + CID_LENGTH || !path.startsWith(PREFIX)) return null;
    const cid = path.slice(PREFIX.length);
    if (!isCid(cid)) return null;
    const caller = this.#who === null ? ANYBODY : this.#who.known(request.headers, peer);
    if (caller?.access !== "worker" || !this.#gate.free) return null;
    return quick(this.#cas, request, cid);
  }

  async #slow(request: Request, path: string, peer: Peer | undefined): Promise<Response> {
    try {
      const caller = await this.#who?.identify(request.headers, peer ?? INSIDE) ?? ANYBODY;
      checkAccess(caller, "worker");
      return await this.#route(request, path, caller.name, peer !== undefined);
    } catch (error) {
      this.#logUpload(request, path, error);
      return await this.#refusals.answer(request, path, error);
    }
  }

  async #route(request: Request, path: string, token: string, sent: boolean): Promise<Response> {
    if (!path.startsWith(PREFIX)) throw noSuch(request.method, path);
    const [name = "", ...more] = path.slice(PREFIX.length).split("/");
    if (name === "uploads" && this.#uploads !== null) {
      return await answerUpload(this.#uploads, this.#gate, request, more, token);
    }
    if (more.length > 0) throw noSuch(request.method, path);
    if (name === "missing") return await this.#missing(request);
    switch (request.method) {
      case "HEAD":
        return await head(this.#cas, request, parseCid(name));
      case "GET":
        return await get(this.#cas, this.#gate, request, parseCid(name), { token, sent });
      case "PUT":
        await receive(this.#cas, this.#gate, request, parseCid(name), token);
        return new Response(null, { status: 201 });
      default:
        throw notAllowed(request.method, path, "GET, HEAD, PUT");
    }
  }

  async #missing(request: Request): Promise<Response> {
    if (request.method !== "POST") throw notAllowed(request.method, `${PREFIX}missing`, "POST");
    const { cids } = await readJson(request, missingQuestion, MAX_QUESTION);
    const missing = await this.#cas.missing(cids.filter((cid) => !sameBlob(cid, EMPTY)));
    return Response.json({ missing });
  }

  /** What a sender does wrong is not logged; but whoever looks for a blob wants to know that its upload ended early. */
  #logUpload(request: Request, path: string, error: unknown): void {
    if (request.method !== "PUT" && request.method !== "PATCH") return;
    if (!(error instanceof SubletError)) return;
    const brokeOff = error.code === "invalid_request" && error.cause !== undefined;
    if (!brokeOff && error.code !== "slow_request") return;
    this.#log.event("cas.upload_ended", { path, error: error.message });
  }
}

/** Refuse a method, and say which there are. */
export function notAllowed(method: string, path: string, allow: string): Refusal {
  return new Refusal(
    "method_not_allowed",
    `${path}: ${method} is not allowed here, only ${allow}`,
    { allow },
  );
}

function noSuch(method: string, path: string): SubletError {
  return new SubletError("not_found", `there is no ${method} ${path.slice(0, 200)}`);
}

/** The service of `cas`. */
export function casService(cas: Served, options: CasServiceOptions = {}): CasService {
  return new CasService(cas, options);
}
