/** @module What every transaction changed, as triggers of the simulated database write it down. */

import type { Row } from "../../lib/store/mod.ts";

export type LeaseState =
  | "queued"
  | "acquired"
  | "running"
  | "reported"
  | "expired"
  | "cancelled";

export interface LeaseFacts {
  readonly state: LeaseState;
  readonly job: number;
  readonly attempt: number;
  readonly slots: "agents" | "evaluations";
  readonly worker: string | null;
  readonly incarnation: string | null;
  readonly revoked: boolean;
  /** The request id of its accepted report. */
  readonly report: string | null;
  /** Whether it has the time at which it was acquired, at which it started, and at which it ended. */
  readonly timed: {
    readonly acquired: boolean;
    readonly running: boolean;
    readonly ended: boolean;
  };
}

export interface JobFacts {
  readonly state: "open" | "reported" | "dead" | "cancelled";
  readonly kind: string;
  readonly key: string;
  readonly cid: string;
  readonly attempts: number;
  readonly hostFaults: number;
}

export interface EventFacts {
  readonly event: string;
  readonly job: number | null;
  readonly lease: number | null;
  readonly worker: string | null;
}

export interface MailFacts {
  readonly worker: string;
  readonly kind: "prompt" | "revoke" | "drain";
  readonly lease: number | null;
  readonly answered: boolean;
  readonly error: string | null;
  readonly prompt: number | null;
}

export interface EffectFacts {
  readonly job: number;
  readonly lease: number;
  readonly what: string;
  readonly detail: string;
}

export interface WorkerFacts {
  readonly name: string;
  readonly pool: string;
  readonly incarnation: string | null;
  readonly once: boolean;
  readonly drained: boolean;
  readonly paused: boolean;
  readonly left: boolean;
}

/** One row that changed: `before` is null for a new one. */
export interface Change<T> {
  readonly id: number;
  readonly before: T | null;
  readonly after: T;
}

/** Everything that one transaction changed, each list in order. */
export interface Changes {
  readonly leases: Change<LeaseFacts>[];
  readonly jobs: Change<JobFacts>[];
  readonly events: Change<EventFacts>[];
  readonly mails: Change<MailFacts>[];
  readonly effects: Change<EffectFacts>[];
  readonly workers: Change<WorkerFacts>[];
}

type Table = keyof Changes;

/** By list: the table, and the facts of its row `@`. */
const TABLES: Readonly<Record<Table, { readonly table: string; readonly facts: string }>> = {
  leases: {
    table: "leases",
    facts: `'state', @.state, 'job', @.job_id, 'attempt', @.attempt, 'slots', @.slots,
      'worker', @.worker, 'incarnation', @.incarnation, 'report', @.report_request,
      'timed', json_object('acquired', json(iif(@.acquired_at IS NULL, 'false', 'true')),
        'running', json(iif(@.started_at IS NULL, 'false', 'true')),
        'ended', json(iif(@.ended_at IS NULL, 'false', 'true'))), 'revoked', json(iif(@.revoked_at IS NULL, 'false', 'true'))`,
  },
  jobs: {
    table: "jobs",
    facts:
      `'state', @.state, 'kind', @.kind, 'key', @.key, 'cid', @.job_cid, 'attempts', @.max_attempts,
      'hostFaults', @.host_faults`,
  },
  events: {
    table: "lease_events",
    facts: `'event', @.event, 'job', @.job_id, 'lease', @.lease, 'worker', @.worker`,
  },
  mails: {
    table: "lease_messages",
    facts: `'worker', @.worker, 'kind', @.kind, 'lease', @.lease,
      'answered', json(iif(@.answered_at IS NULL, 'false', 'true')), 'error', @.error, 'prompt', @.prompt`,
  },
  effects: {
    table: "sim_effects",
    facts: `'job', @.job, 'lease', @.lease, 'what', @.what, 'detail', @.detail`,
  },
  workers: {
    table: "lease_workers",
    facts:
      `'name', @.name, 'pool', @.pool, 'incarnation', @.incarnation, 'once', json(iif(@.once, 'true', 'false')),
      'drained', json(iif(@.drained_at IS NULL, 'false', 'true')),
      'paused', json(iif(@.paused_at IS NULL, 'false', 'true')),
      'left', json(iif(@.left_at IS NULL, 'false', 'true'))`,
  },
};

const idOf = (table: Table, row: string) => table === "workers" ? "0" : `${row}.id`;

/** Statements that make the simulation's own tables and triggers. */
export function feedSchema(): string[] {
  const made = [
    `CREATE TABLE sim_effects
       (id INTEGER PRIMARY KEY, job INTEGER, lease INTEGER, what TEXT, detail TEXT)`,
    `CREATE TABLE sim_settled (key TEXT PRIMARY KEY)`,
    `CREATE TABLE sim_undo (id INTEGER PRIMARY KEY)`,
    `INSERT INTO sim_undo (id) VALUES (1)`,
    `CREATE TABLE sim_changes
       (seq INTEGER PRIMARY KEY, list TEXT, id INTEGER, was TEXT, new TEXT)`,
  ];
  for (const [list, { table, facts }] of Object.entries(TABLES)) {
    const json = (row: string) => `json_object(${facts.replaceAll("@", row)})`;
    const put = (was: string) =>
      `BEGIN INSERT INTO sim_changes (list, id, was, new)
       VALUES ('${list}', ${idOf(list as Table, "NEW")}, ${was}, ${json("NEW")}); END`;
    made.push(`CREATE TRIGGER sim_${list}_new AFTER INSERT ON ${table} ${put("NULL")}`);
    made.push(`CREATE TRIGGER sim_${list}_set AFTER UPDATE ON ${table} ${put(json("OLD"))}`);
  }
  return made;
}

export type ChangeRow = Row & { list: string; id: number; was: string | null; new: string };

export const READ_CHANGES = "SELECT list, id, was, new FROM sim_changes ORDER BY seq";
export const FORGET_CHANGES = "DELETE FROM sim_changes";

/** The rows of {@linkcode READ_CHANGES} as lists. */
export function changesOf(rows: readonly ChangeRow[]): Changes {
  const all: Record<Table, Change<unknown>[]> = {
    leases: [],
    jobs: [],
    events: [],
    mails: [],
    effects: [],
    workers: [],
  };
  for (const { list, id, was, new: after } of rows) {
    all[list as Table].push({
      id,
      before: was === null ? null : JSON.parse(was),
      after: JSON.parse(after),
    });
  }
  return all as unknown as Changes;
}

/** The query of everything that is in a list, as if it had just been inserted. */
export function readAll(list: Table): string {
  const { table, facts } = TABLES[list];
  return `SELECT '${list}' AS list, ${idOf(list, "r")} AS id, NULL AS was,
    json_object(${facts.replaceAll("@", "r")}) AS new FROM ${table} r ORDER BY 2`;
}

/** The lists. */
export const LISTS = Object.keys(TABLES) as Table[];
