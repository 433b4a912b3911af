/** @module What people and programs see of jobs, leases and workers. Times are ISO 8601 UTC; names are the HTTP API's. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { parseLane } from "./lanes.ts";
import { isoOrNull, isoTime } from "./time.ts";
import { eventsOf, type EventView, type LeaseColumns } from "./timeline.ts";
import { whyLaneWaits } from "./why.ts";

/** The states of a job. */
export const JOB_STATES = ["open", "reported", "dead", "cancelled"] as const;
/** One of {@linkcode JOB_STATES}. */
export type JobState = (typeof JOB_STATES)[number];

/** A job, with its newest lease. */
export interface JobView {
  readonly job: number;
  readonly kind: string;
  readonly key: string;
  readonly campaign: number | null;
  readonly state: JobState;
  /** Why it is dead or cancelled, or is to be cancelled. */
  readonly reason: string | null;
  readonly priority: number;
  /** How often it was leased since it was submitted, or last tried again by hand. */
  readonly attempts: number;
  readonly max_attempts: number;
  readonly lease: number;
  readonly lease_state: string;
  readonly worker: string | null;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  /** Why it waits; null unless it does. */
  readonly waits: string | null;
}

/** A lease. */
export interface LeaseView {
  readonly lease: number;
  readonly state: string;
  readonly attempt: number;
  readonly worker: string | null;
  readonly queued_at: string;
  readonly acquired_at: string | null;
  readonly started_at: string | null;
  /** When a heartbeat last renewed it, and when it is lost unless another one does. */
  readonly renewed_at: string | null;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  readonly ended_at: string | null;
  readonly reason: string | null;
}

/** A job with everything that is known of it. */
export interface JobDetails extends JobView {
  readonly job_cid: string;
  readonly repo: number | null;
  /** How long it may run once it has started, in seconds; null: as long as it takes. */
  readonly timeout_seconds: number | null;
  readonly requires: {
    readonly pool: string | null;
    readonly runner: string | null;
    readonly labels: readonly string[];
  };
  readonly leases: readonly LeaseView[];
  /** What happened, newest last. */
  readonly events: readonly EventView[];
}

/** Which jobs to list, newest first. */
export interface JobFilter {
  readonly state?: JobState;
  readonly campaign?: number;
  readonly kind?: string;
  /** Only those with a smaller number. */
  readonly before?: number;
  /** Default 50, at most 1000. */
  readonly limit?: number;
}

/** How many leases of a job are shown: the newest. */
const MAX_LEASES = 100;
const MAX_LIST = 1000;

type JobRow = Row & {
  id: number;
  kind: string;
  key: string;
  job_cid: string;
  campaign: number | null;
  repo: number | null;
  lane: string;
  priority: number;
  max_attempts: number;
  state: JobState;
  reason: string | null;
  created_at: number;
  ended_at: number | null;
  lease: number;
  lease_state: string;
  attempt: number;
  worker: string | null;
  started_at: number | null;
  timeout_ms: number | null;
};

const JOB = `
  SELECT j.id, j.kind, j.key, j.job_cid, j.campaign, j.repo, j.lane, j.priority, j.max_attempts, j.state,
    j.reason, j.timeout_ms, j.created_at, j.ended_at, l.id AS lease, l.state AS lease_state, l.attempt, l.worker, l.started_at
  FROM jobs j JOIN leases l ON l.id = (SELECT max(n.id) FROM leases n WHERE n.job_id = j.id)`;

/** Jobs, newest first. */
export async function listJobs(core: Core, filter: JobFilter = {}): Promise<JobView[]> {
  const where: string[] = [];
  const params: (string | number)[] = [];
  const add = (term: string, value: string | number | undefined) => {
    if (value === undefined) return;
    where.push(term);
    params.push(value);
  };
  add("j.state = ?", filter.state);
  add("j.campaign = ?", filter.campaign);
  add("j.kind = ?", filter.kind);
  add("j.id < ?", filter.before);
  const limit = Math.min(Math.max(1, filter.limit ?? 50), MAX_LIST);
  const rows = await core.db.read((tx) =>
    tx.all<JobRow>(
      `${JOB} ${
        where.length === 0 ? "" : `WHERE ${where.join(" AND ")}`
      } ORDER BY j.id DESC LIMIT ?`,
      [...params, limit],
    )
  );
  const whys = new Map<string, string>();
  return rows.map((row) => jobView(core, row, whys));
}

/** A job. Throws `not_found`. */
export async function showJob(core: Core, job: number): Promise<JobDetails> {
  const found = await core.db.read(async (tx) => {
    const row = await tx.get<JobRow>(`${JOB} WHERE j.id = ?`, [job]);
    if (row === null) return null;
    const leases = await leasesOf(tx, job);
    return { row, leases, events: await eventsOf(tx, job, leases) };
  });
  if (found === null) throw new SubletError("not_found", `there is no job ${job}`);
  const { pool, runner, labels } = parseLane(found.row.lane);
  return {
    ...jobView(core, found.row, new Map()),
    job_cid: found.row.job_cid,
    repo: found.row.repo,
    timeout_seconds: found.row.timeout_ms === null ? null : found.row.timeout_ms / 1000,
    requires: { pool, runner, labels },
    leases: found.leases.map((lease) => leaseView(core, lease)),
    events: found.events,
  };
}

function jobView(core: Core, row: JobRow, whys: Map<string, string>): JobView {
  const queued = row.lease_state === "queued";
  return {
    job: row.id,
    kind: row.kind,
    key: row.key,
    campaign: row.campaign,
    state: row.state,
    reason: row.reason,
    priority: row.priority,
    // The last attempt never began when its lease is queued, or was cancelled before anybody took it.
    attempts: row.worker === null ? row.attempt - 1 : row.attempt,
    max_attempts: row.max_attempts,
    lease: row.lease,
    lease_state: row.lease_state,
    worker: row.worker,
    created_at: isoTime(row.created_at),
    started_at: isoOrNull(row.started_at),
    ended_at: isoOrNull(row.ended_at),
    waits: queued ? whyJobWaits(core, row, whys) : null,
  };
}

function whyJobWaits(core: Core, row: JobRow, whys: Map<string, string>): string {
  const seconds = core.delays.left(row.lease);
  if (seconds !== null) {
    return `attempt ${row.attempt} of ${row.max_attempts} may start in ${
      Math.ceil(seconds)
    } seconds`;
  }
  let why = whys.get(row.lane);
  if (why === undefined) whys.set(row.lane, why = whyLaneWaits(core, row.lane));
  return why;
}

async function leasesOf(tx: Tx, job: number): Promise<LeaseColumns[]> {
  const rows = await tx.all<LeaseColumns>(
    `SELECT id, state, attempt, worker, created_at, acquired_at, started_at, renewed_at, revoked_at, ended_at,
       receipt FROM leases WHERE job_id = ? ORDER BY id DESC LIMIT ?`,
    [job, MAX_LEASES],
  );
  return rows.reverse();
}

function leaseView(core: Core, row: LeaseColumns): LeaseView {
  const live = core.roster.live.get(row.id);
  const renewed = live === undefined
    ? row.renewed_at
    : core.wall() - Math.round(core.clock.monotonic() - live.renewed);
  const { lost, cancelled, settled } = JSON.parse(row.receipt ?? "{}");
  return {
    lease: row.id,
    state: row.state,
    attempt: row.attempt,
    worker: row.worker,
    queued_at: isoTime(row.created_at),
    acquired_at: isoOrNull(row.acquired_at),
    started_at: isoOrNull(row.started_at),
    renewed_at: isoOrNull(renewed),
    expires_at: live === undefined || renewed === null
      ? null
      : isoTime(renewed + core.tolerationOf(live)),
    revoked_at: isoOrNull(row.revoked_at),
    ended_at: isoOrNull(row.ended_at),
    reason: lost ?? cancelled ?? settled ?? null,
  };
}
