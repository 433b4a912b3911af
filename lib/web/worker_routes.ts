/** @module The API's routes of workers and pools. */

import * as z from "zod";
import type { PoolView, WorkerView } from "../lease/mod.ts";
import type { ApiEngine } from "./engine_port.ts";
import { name, type Route, route } from "./route.ts";
import { time } from "./schemas.ts";

const sample = name(
  "HostSample",
  z.object({
    at: time,
    cpus: z.int(),
    load1: z.number().describe("The 1-minute load average."),
    memory_available: z.number().describe("Bytes."),
    disk_free: z.number().describe("Bytes."),
  }),
);

const bounds = name(
  "SlotBounds",
  z.object({ agents: z.int().nullable(), evaluations: z.int().nullable() })
    .describe("Leases at once; null: no bound."),
);

const worker = name(
  "Worker",
  z.object({
    worker: z.string(),
    pool: z.string(),
    version: z.string(),
    runners: z.array(z.string()).readonly(),
    labels: z.array(z.string()).readonly(),
    once: z.boolean().describe("It takes one lease, and leaves."),
    joined_at: time,
    seen_at: time,
    seen_seconds: z.number(),
    reachable: z.boolean().describe("It was heard within the grace period."),
    drained_at: time.nullable(),
    paused_at: time.nullable(),
    standing_reason: z.string().nullable().describe("Why it was drained or paused."),
    drain_by: time.nullable()
      .describe("When what it still holds is taken from it, once drained. Null: never."),
    sample,
    agents: z.int().describe("Live leases of agents."),
    evaluations: z.int().describe("Live leases of evaluations."),
    slots: bounds,
    leases: z.array(z.int()).readonly(),
    no_lease: z.string().nullable().describe("Why it got no lease; null: it did."),
  }),
);

const slots = name(
  "Slots",
  z.object({
    used: z.int(),
    total: z.int().nullable().describe("Of the reachable workers; null: no bound."),
  }),
);

/** A pool, with the slots of its workers together. */
export const pool = name(
  "Pool",
  z.object({
    pool: z.string(),
    workers: z.int(),
    reachable: z.int(),
    agents: slots,
    evaluations: slots,
    each: bounds,
  }),
);

const workerList = name("WorkerList", z.object({ workers: z.array(worker) }));
const poolList = name("PoolList", z.object({ pools: z.array(pool) }));
const reason = name("Reason", z.object({ reason: z.string().max(1000).optional() }));
const drainage = name(
  "Drainage",
  z.object({
    reason: z.string().max(1000).optional(),
    deadline_seconds: z.number().positive().max(31_536_000).optional()
      .describe("Take what it still holds after this many seconds. Default: wait for it."),
  }),
);
const params = z.object({ name: z.string().min(1).max(64) });

/** A pool, as the API shows it. */
export function poolJson(view: PoolView): z.input<typeof pool> {
  const together = (each: number | null) => each === null ? null : each * view.reachable;
  return {
    pool: view.pool,
    workers: view.workers,
    reachable: view.reachable,
    agents: { used: view.agents, total: together(view.slots.agents) },
    evaluations: { used: view.evaluations, total: together(view.slots.evaluations) },
    each: { agents: view.slots.agents, evaluations: view.slots.evaluations },
  };
}

/** The routes of workers and pools. */
export function workerRoutes(engine: ApiEngine): Route[] {
  return [
    route({
      method: "get",
      path: "/v1/workers",
      access: "read",
      operation: "listWorkers",
      summary: "Workers by name, and why each got no lease.",
      answer: workerList,
    }, () => Promise.resolve({ workers: engine.listWorkers().map(workerJson) })),
    route({
      method: "get",
      path: "/v1/pools",
      access: "read",
      operation: "listPools",
      summary: "Pools, with their slots used and in all.",
      answer: poolList,
    }, () => Promise.resolve({ pools: engine.listPools().map(poolJson) })),
    route({
      method: "post",
      path: "/v1/workers/{name}/drain",
      access: "admin",
      operation: "drainWorker",
      summary: "Let a worker take no more leases, and leave once it has reported those it holds.",
      params,
      body: drainage,
      answer: null,
    }, async ({ params, body }) => {
      await engine.drain(params.name, body.reason ?? null, body.deadline_seconds ?? null);
    }),
    route({
      method: "post",
      path: "/v1/workers/{name}/pause",
      access: "admin",
      operation: "pauseWorker",
      summary: "Let a worker take no more leases until it is resumed.",
      params,
      body: reason,
      answer: null,
    }, async ({ params, body }) => await engine.pause(params.name, body.reason ?? null)),
    route({
      method: "post",
      path: "/v1/workers/{name}/resume",
      access: "admin",
      operation: "resumeWorker",
      summary: "Let a drained or paused worker take leases again.",
      params,
      answer: null,
    }, async ({ params }) => await engine.resume(params.name)),
    route({
      method: "delete",
      path: "/v1/workers/{name}",
      access: "admin",
      operation: "removeWorker",
      summary: "Forget a worker that is silent and holds nothing.",
      params,
      answer: null,
    }, async ({ params }) => await engine.removeWorker(params.name)),
  ];
}

function workerJson(view: WorkerView): z.input<typeof worker> {
  return { ...view, sample: { ...view.sample }, slots: { ...view.slots } };
}
