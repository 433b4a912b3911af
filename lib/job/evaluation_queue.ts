/** @module Evaluations as rows that become jobs. */

import { evaluationJob } from "./shapes.ts";
import type { JobRows } from "./job_queue.ts";
import {
  forgetUnsubmitted,
  isUnsubmitted,
  setJob,
  type Unsubmitted,
  unsubmitted,
} from "./evaluation_store_requests.ts";

/** How long a checkout with its inputs may take, beside the command. */
const SETUP_SECONDS = 1800;

/** Evaluations that wait for a job. */
export const evaluationRows: JobRows<Unsubmitted> = {
  unsubmitted,
  isUnsubmitted,
  setJob,
  forget: forgetUnsubmitted,
  queued: (row, jobCid) => ({
    kind: "evaluation",
    key: String(row.id),
    jobCid,
    requires: { runner: "process", ...(row.pool === null ? {} : { pool: row.pool }) },
    campaign: row.campaign,
    priority: row.priority,
    repo: row.campaign,
    timeoutSeconds: longest(row.text),
  }),
};

/** Seconds in which a job's runs are over, each with its checkout and its inputs, and each killed once by a stranger. */
function longest(text: string): number {
  const { timeout, repeats, bar } = evaluationJob.parse(JSON.parse(text));
  return repeats * (bar === null ? 1 : 2) * 2 * (timeout + SETUP_SECONDS);
}
