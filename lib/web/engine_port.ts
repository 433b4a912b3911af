/** @module What the API asks of the lease engine. */

import type { LeaseEngine } from "../lease/mod.ts";

/** The lease engine, as far as the API shows and steers it. */
export type ApiEngine = Pick<
  LeaseEngine,
  | "cancelJob"
  | "changed"
  | "drain"
  | "evidence"
  | "listJobs"
  | "listPools"
  | "listWorkers"
  | "pause"
  | "removeWorker"
  | "resume"
  | "retryJob"
  | "showJob"
  | "status"
>;
