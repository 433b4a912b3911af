/** @module The door of `lib/lease`: the wire, the lease engine and its routes, and the worker's loops. */

export * from "./wire.ts";
export type * from "./client.ts";
export type * from "./kind.ts";

export { LeaseEngine } from "./engine.ts";
export type { EngineOptions } from "./core.ts";
export type { Cancelled } from "./cancel.ts";
export type { Pool, Slots } from "./gates.ts";
export type { WorkerCaller } from "./member.ts";
export type { Registered, RegisterRequest, WireGrant } from "./register.ts";
export type { Receipt } from "./report.ts";
export {
  type Limit,
  Limits,
  type LimitsOptions,
  type LimitView,
  type RefusedLimit,
} from "./limits.ts";
export type { EventView, Evidence } from "./timeline.ts";
export type { EngineStatus, PoolView, WorkerView } from "./status.ts";
export {
  JOB_STATES,
  type JobDetails,
  type JobFilter,
  type JobState,
  type JobView,
  type LeaseView,
} from "./views.ts";
export {
  type JobCommands,
  type JobSecrets,
  type LeaseRouteOptions,
  LeaseRoutes,
  type SavedParts,
  type SendVersions,
} from "./routes.ts";
export { SERVE } from "./route_request.ts";
export { isoTime } from "./time.ts";

export { HttpLeaseClient } from "./http_client.ts";
export { UnexplainedStatus } from "./http_client_refusal.ts";
export type { Spool, SpooledOutcome, SpoolEntry } from "./spool.ts";
export { MemorySpool } from "./spool_memory.ts";
export { LeaseWorker } from "./worker.ts";
export type { Incarnation, WorkerEnd, WorkerOptions } from "./worker_options.ts";
export { sendOver } from "./worker_send.ts";
