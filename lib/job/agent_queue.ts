/** @module Agents as rows that become jobs. */

import {
  forgetUnsubmittedAgents,
  isAgentUnsubmitted,
  setAgentJob,
  type UnsubmittedAgent,
  unsubmittedAgents,
} from "./agent_store_requests.ts";
import type { JobRows } from "./job_queue.ts";

/** Seconds beyond an agent's own time in which its worker ends it and brings back what it left. */
const END_SECONDS = 1800;

/** Agents that wait for a job. */
export const agentRows: JobRows<UnsubmittedAgent> = {
  unsubmitted: unsubmittedAgents,
  isUnsubmitted: isAgentUnsubmitted,
  setJob: setAgentJob,
  forget: forgetUnsubmittedAgents,
  queued: (row, jobCid) => ({
    kind: "agent",
    key: String(row.id),
    jobCid,
    requires: JSON.parse(row.requires),
    campaign: row.campaign,
    priority: row.priority,
    repo: row.campaign,
    timeoutSeconds: row.timeout + END_SECONDS,
  }),
};
