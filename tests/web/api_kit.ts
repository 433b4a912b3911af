/** @module The API over a real database, engine and git repository, with a worker that is driven by hand. */

import assert from "node:assert/strict";
import * as z from "zod";
import type { Hono } from "hono";
import { cidOf } from "../../lib/cas/mod.ts";
import { nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import { LeaseEngine, Limits, type WireGrant, type WorkerCaller } from "../../lib/lease/mod.ts";
import { type Access, authenticate, type NetEnv, Tokens } from "../../lib/net/mod.ts";
import { SecretBook } from "../../lib/job/mod.ts";
import { LocalSecrets, SealingKey } from "../../lib/secret/mod.ts";
import { apiRoutes, createApi } from "../../lib/web/mod.ts";
import type { Route } from "../../lib/web/route.ts";
import { Kit, sure, TOML } from "../job/campaign_kit.ts";

const encoder = new TextEncoder();
const KEY = new SealingKey(new Uint8Array(32).fill(7));

const SAMPLE = {
  at: "2026-01-01T00:00:00Z",
  cpus: 4,
  load1: 0.5,
  memory_available: 8e9,
  disk_free: 1e11,
};

const POOLS = { serve: { evaluations: 2 }, lab: { evaluations: 3, agents: 1 } };

/** One run of a worker's report. */
export function run(score: number): object {
  return { metrics: { score }, seconds: 1.5, error: null, units: {} };
}

/** A worker, a call at a time. */
export class HandWorker {
  readonly caller: WorkerCaller;

  constructor(readonly api: ApiKit, readonly name = "w1") {
    this.caller = { name, pool: null, incarnation: null, succeeds: null, local: false };
  }

  async register(pool = "lab"): Promise<void> {
    await this.api.engine.register(this.caller, {
      version: "1",
      pool,
      runners: ["process"],
      labels: [],
      sample: SAMPLE,
      casProbe: await this.api.kit.cas.put(encoder.encode(`probe of ${this.name}`)),
      once: false,
    });
  }

  async acquire(): Promise<WireGrant> {
    const grant = await this.api.engine.acquire(this.caller, crypto.randomUUID(), SAMPLE);
    assert.ok(typeof grant === "object", `no lease: ${grant}`);
    return grant;
  }

  async start(): Promise<WireGrant> {
    const grant = await this.acquire();
    await this.api.engine.started(this.caller, grant.lease, { pgid: 1, start_time: null }, null);
    return grant;
  }

  async report(lease: number, body: object): Promise<void> {
    const report = { kind: "evaluation", ...body };
    await this.api.engine.report(this.caller, lease, crypto.randomUUID(), report);
  }
}

/** An answer of the API. */
export interface Answer {
  readonly status: number;
  // deno-lint-ignore no-explicit-any -- a test says what it expects of it
  readonly json: any;
}

/** The API, and everything beneath it. */
export class ApiKit implements AsyncDisposable {
  readonly closing = new AbortController();
  readonly app: Hono<NetEnv>;
  readonly routes: readonly Route[];
  #addresses = 0;

  private constructor(
    readonly kit: Kit,
    readonly engine: LeaseEngine,
    readonly tokens: Tokens,
    readonly limits: Limits,
  ) {
    const network = { takesTokens: true, identify: () => ({ refused: "say who you are" }) };
    const deps = {
      cas: kit.cas,
      engine,
      limits,
      evaluations: kit.evaluations,
      agents: kit.agents,
      streams: kit.streams,
      secrets: new SecretBook(kit.db, new LocalSecrets(KEY, systemClock), nullLog),
      tokens,
      clock: systemClock,
      log: nullLog,
      server: {
        version: "9.9.9",
        pid: 42,
        startedAt: systemClock.now() - 5000,
        urls: () => ["http://127.0.0.1:1"],
      },
      authenticate: authenticate(tokens, network),
      closing: this.closing.signal,
    };
    this.app = createApi(deps);
    this.routes = apiRoutes(deps);
  }

  static async make(toml = TOML): Promise<ApiKit> {
    const kit = await Kit.make(toml);
    const engine = new LeaseEngine({
      db: kit.db,
      cas: kit.cas,
      clock: systemClock,
      ids: systemIds,
      log: nullLog,
      kinds: [kit.evaluations.kind, kit.agents.kind],
      timing: { renew: 10, grace: 50, toleration: 300 },
      pools: POOLS,
    });
    await engine.start();
    const limits = new Limits({
      db: kit.db,
      clock: systemClock,
      log: nullLog,
      pools: POOLS,
      apply: (pools) => engine.setPools(pools),
    });
    kit.evaluations.bind(engine);
    kit.agents.bind(engine);
    return new ApiKit(kit, engine, new Tokens(kit.db, systemClock), limits);
  }

  /** A campaign that is registered, and evaluations of its head that are queued. */
  static async withEvaluations(count: number): Promise<ApiKit> {
    const api = await ApiKit.make();
    await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
    const revisions = Array(count).fill("HEAD");
    const { status } = await api.owner("POST", "/v1/evaluations", { campaign: "demo", revisions });
    assert.equal(status, 201);
    return api;
  }

  /** A request as it comes over the Unix socket. */
  async owner(method: string, path: string, body?: unknown, init?: RequestInit): Promise<Answer> {
    return await this.#json(method, path, body, init, { address: null, unix: true });
  }

  /** A request over TCP with a token of this access; null: without one. */
  async as(access: Access | null, method: string, path: string, body?: unknown): Promise<Answer> {
    const headers: Record<string, string> = {};
    if (access !== null) {
      const name = `t-${crypto.randomUUID()}`;
      headers["authorization"] = `Bearer ${await this.tokens.create(name, { access })}`;
    }
    // From an address of its own, since one that fails too often is slowed down.
    const address = `10.0.0.${++this.#addresses}`;
    return await this.#json(method, path, body, { headers }, { address, unix: false });
  }

  /** The answer as it comes. */
  async raw(path: string): Promise<Response> {
    return await this.app.request(path, {}, { address: null, unix: true });
  }

  async #json(
    method: string,
    path: string,
    body: unknown,
    init: RequestInit = {},
    env: { address: string | null; unix: boolean },
  ): Promise<Answer> {
    const response = await this.app.request(path, {
      method,
      ...init,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }, env);
    const text = await response.text();
    const json = text === "" ? null : JSON.parse(text);
    if (response.ok) this.#checkAnswer(method, path, response.status, json);
    else assert.deepEqual(Object.keys(json).sort(), ["code", "message"]);
    return { status: response.status, json };
  }

  /** An answer holds exactly what the API's document says that it does. */
  #checkAnswer(method: string, path: string, status: number, json: unknown): void {
    const [pathname = ""] = path.split("?");
    const route = sure(
      this.routes.find((each) =>
        each.method === method.toLowerCase() && pattern(each.path).test(pathname)
      ),
    );
    assert.equal(status, route.answer === null ? 204 : route.status ?? 200);
    if (route.answer instanceof z.ZodType) assert.deepEqual(route.answer.parse(json), json);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.closing.abort();
    await this.engine.close();
    await this.kit[Symbol.asyncDispose]();
  }
}

function pattern(path: string): RegExp {
  return new RegExp(`^${path.replace(/\{\w+\+\}/g, ".+").replace(/\{\w+\}/g, "[^/]+")}$`);
}

/** A log file in the CAS. */
export async function log(api: ApiKit, text: string): Promise<string> {
  await api.kit.cas.put(encoder.encode(text));
  return cidOf(encoder.encode(text));
}
