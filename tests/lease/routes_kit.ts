/** @module The lease routes behind real authentication, and a worker that speaks HTTP as piloop's does. */

import { systemClock } from "../../lib/home/mod.ts";
import { type LeaseRouteOptions, LeaseRoutes } from "../../lib/lease/mod.ts";
import {
  Authenticator,
  HttpsNetwork,
  type Peer,
  type TokenOptions,
  Tokens,
} from "../../lib/net/mod.ts";
import { Rig, type RigOptions, SAMPLE } from "./engine_kit.ts";

export const TCP: Peer = { address: "127.0.0.1", unix: false };
export const UNIX: Peer = { address: null, unix: true };

/** An answer: its status and its JSON, or null for none. */
export interface Answer {
  readonly status: number;
  // deno-lint-ignore no-explicit-any
  readonly json: any;
  readonly headers: Headers;
}

/** Routes on a rig. */
export class Served implements AsyncDisposable {
  readonly #tokens: Tokens;
  readonly #routes: LeaseRoutes;
  send: LeaseRouteOptions["send"] = () => Promise.resolve([]);

  private constructor(readonly rig: Rig, tokens: Tokens, network: HttpsNetwork) {
    this.#tokens = tokens;
    this.#routes = new LeaseRoutes(rig.engine, new Authenticator(tokens, network), {
      version: "9.9.9",
      send: (...args) => this.send(...args),
    });
  }

  /** The answer to a request to a path of workers. */
  async fetch(request: Request, peer: Peer): Promise<Response> {
    const answer = this.#routes.answer(request, peer);
    if (answer === null) throw new Error(`${request.url} is no path of workers`);
    return await answer;
  }

  static async make(options: RigOptions = {}): Promise<Served> {
    const rig = await Rig.make(options);
    const network = await HttpsNetwork.open({
      provider: "https",
      listen: null,
      tls: null,
      url: null,
    });
    return new Served(rig, new Tokens(rig.db, systemClock), network);
  }

  /** A token's secret. */
  token(name: string, options: TokenOptions = { access: "worker" }): Promise<string> {
    return this.#tokens.create(name, options);
  }

  revoke(name: string): Promise<void> {
    return this.#tokens.revoke(name);
  }

  /** The secret of the server's own worker. */
  internal(): string {
    return this.#tokens.grantInternal("serve", "worker");
  }

  /** A worker with a token of its own. */
  async worker(name: string, headers: Record<string, string> = {}): Promise<HttpWorker> {
    return new HttpWorker(this, { authorization: `Bearer ${await this.token(name)}`, ...headers });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.rig[Symbol.asyncDispose]();
  }
}

/** Sends requests with its headers. */
export class HttpWorker {
  constructor(
    readonly served: Served,
    readonly headers: Record<string, string>,
    readonly peer: Peer = TCP,
  ) {}

  /** One call. `body` is sent as it is when it is text. */
  async call(name: string, body: unknown, signal?: AbortSignal): Promise<Answer> {
    const request = new Request(`http://server/v1/executor/${name}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...this.headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
    const response = await this.served.fetch(request, this.peer);
    const text = await response.text();
    return {
      status: response.status,
      json: text === "" ? null : JSON.parse(text),
      headers: response.headers,
    };
  }

  /** What piloop's worker sends when it starts. */
  async registration(more: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const probe = await this.served.rig.cas.put(new TextEncoder().encode(crypto.randomUUID()));
    return {
      protocol: 7,
      version: "0.3.1",
      pool: "lab",
      runners: ["process"],
      sample: SAMPLE,
      cas_probe: probe,
      ...more,
    };
  }

  async register(more: Record<string, unknown> = {}): Promise<Answer> {
    return await this.call("register", await this.registration(more));
  }

  acquire(requestId: string = crypto.randomUUID()): Promise<Answer> {
    return this.call("acquire", { request_id: requestId, sample: SAMPLE });
  }

  /** The id of the lease that it takes. */
  async take(): Promise<number> {
    const { status, json } = await this.acquire();
    if (status !== 200 || typeof json === "string") throw new Error(`no lease: ${status} ${json}`);
    return json.lease;
  }
}
