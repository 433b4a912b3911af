/** @module The API's routes of the server itself: whether it lives, and how it stands. */

import * as z from "zod";
import type { Clock } from "../home/mod.ts";
import type { Agent, Agents } from "../job/mod.ts";
import type { Limits } from "../lease/mod.ts";
import type { ApiEngine } from "./engine_port.ts";
import { limitJson, limitsShown } from "./limit_routes.ts";
import { name, type Route, route } from "./route.ts";
import { pool, poolJson } from "./worker_routes.ts";
import { time } from "./schemas.ts";

/** What a server says of itself. */
export interface ServerInfo {
  readonly version: string;
  readonly pid: number;
  /** When it started, milliseconds since 1970 UTC. */
  readonly startedAt: number;
  /** Where it listens now: URLs, and the path of its Unix socket. */
  urls(): readonly string[];
}

const health = name(
  "Health",
  z.object({ status: z.literal("ok"), version: z.string() }),
);

/** How many running agents are shown. */
const MAX_AGENTS = 100;

const runningAgent = name(
  "RunningAgent",
  z.object({
    job: z.int().nullable(),
    agent: z.int(),
    campaign: z.string(),
    role: z.string(),
    harness: z.string(),
    worker: z.string().nullable(),
    started_at: time.nullable(),
    active_at: time.nullable().describe("When it last wrote something that came here."),
    tokens: z.int().nullable().describe("As its harness counts; null: not known."),
    turns: z.int().nullable(),
    said: z.string().nullable().describe("What it last said or did."),
  }),
);

const status = name(
  "Status",
  z.object({
    server: z.object({
      version: z.string(),
      pid: z.int(),
      started_at: time,
      uptime_seconds: z.number(),
      urls: z.array(z.string()).readonly(),
    }),
    workers: z.object({ total: z.int(), reachable: z.int() }),
    jobs: z.object({
      queued: z.int().describe("That a worker may take now."),
      delayed: z.int().describe("That wait before their next attempt."),
      running: z.int(),
      dead: z.int(),
      waits: z.string().nullable().describe("Why jobs wait that may be taken; null: none does."),
    }),
    agents: z.array(runningAgent).describe("Those that run now, the longest first."),
    pools: z.array(pool),
    ...limitsShown,
    timing: z.object({
      renew: z.number().describe("Seconds between a worker's heartbeats."),
      grace: z.number().describe("Seconds of silence until a worker is unreachable."),
      toleration: z.number().describe("Seconds of silence until its leases are lost."),
    }),
  }),
);

/** The routes of the server. */
export function statusRoutes(
  engine: ApiEngine,
  limits: Limits,
  agents: Agents,
  server: ServerInfo,
  clock: Clock,
): Route[] {
  return [
    route({
      method: "get",
      path: "/v1/healthz",
      access: null,
      operation: "health",
      summary: "Whether the server answers.",
      answer: health,
    }, () => Promise.resolve({ status: "ok" as const, version: server.version })),
    route({
      method: "get",
      path: "/v1/status",
      access: "read",
      operation: "status",
      summary: "How the server stands, and why anything waits.",
      answer: status,
    }, async () => {
      const { jobs, workers, pools, timing } = await engine.status();
      const running = await agents.running(MAX_AGENTS);
      return {
        server: {
          version: server.version,
          pid: server.pid,
          started_at: new Date(server.startedAt).toISOString(),
          uptime_seconds: Math.max(0, Math.floor((clock.now() - server.startedAt) / 1000)),
          urls: server.urls(),
        },
        workers: { ...workers },
        jobs: { ...jobs },
        agents: await Promise.all(running.map((each) => agentJson(agents, each))),
        pools: pools.map(poolJson),
        limits: limits.list().filter(({ limit }) => limit !== null).map(limitJson),
        refused_limits: limits.refused().map((each) => ({ ...each })),
        timing: { ...timing },
      };
    }),
  ];
}

async function agentJson(
  agents: Agents,
  { job, agent, campaign, role, harness, worker, started_at, active_at, usage }: Agent,
): Promise<z.input<typeof runningAgent>> {
  const said = job === null ? [] : await agents.said.last(job, 1);
  return {
    job,
    agent,
    campaign,
    role,
    harness,
    worker,
    started_at,
    active_at,
    tokens: usage?.total ?? null,
    turns: usage?.turns ?? null,
    said: said.at(-1) ?? null,
  };
}
