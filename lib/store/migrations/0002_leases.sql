-- Jobs, the leases on them, the workers that take them, and what happened. Times are milliseconds since 1970 UTC;
-- JSON columns are text. Checks say OR instead of IN: SQLite builds a table for each IN list at each update, which more
-- than doubles its cost.

CREATE TABLE jobs (
  -- AUTOINCREMENT: an id names one thing for ever, also after deletes.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  job_cid TEXT NOT NULL,
  campaign INTEGER,
  repo INTEGER,
  -- Kind and requirements as one canonical text: jobs of one lane fit the same workers.
  lane TEXT NOT NULL,
  priority INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL CHECK (max_attempts > 0),
  state TEXT NOT NULL DEFAULT 'open'
    CHECK (state = 'open' OR state = 'reported' OR state = 'dead' OR state = 'cancelled'),
  -- Why it ended without a report, or why somebody wants it cancelled.
  reason TEXT,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  CHECK ((ended_at IS NULL) = (state = 'open'))
) STRICT;

CREATE UNIQUE INDEX jobs_open_key ON jobs (kind, key) WHERE ended_at IS NULL;
CREATE INDEX jobs_by_campaign ON jobs (campaign, id) WHERE campaign IS NOT NULL;
CREATE INDEX jobs_by_state ON jobs (state, id);

CREATE TABLE leases (
  -- The fencing token: larger than that of every earlier lease.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL REFERENCES jobs (id),
  state TEXT NOT NULL DEFAULT 'queued',
  -- Counts from 1; the job's limit is `max_attempts`.
  attempt INTEGER NOT NULL,
  slots TEXT NOT NULL CHECK (slots = 'agents' OR slots = 'evaluations'),
  lane TEXT NOT NULL,
  -- 0: none.
  campaign INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  -- 1: a worker may take it now. A queued lease with 0 waits until `ready_at`.
  ready INTEGER NOT NULL CHECK (ready = 0 OR ready = 1),
  ready_at INTEGER,
  worker TEXT,
  -- Which process of the worker holds it; null: one that does not say.
  incarnation TEXT,
  acquire_request TEXT UNIQUE,
  report_request TEXT,
  session_id TEXT,
  handle TEXT,
  receipt TEXT,
  created_at INTEGER NOT NULL,
  acquired_at INTEGER,
  started_at INTEGER,
  -- The last renewal when it ended. While it lives, the server's memory has it.
  renewed_at INTEGER,
  revoked_at INTEGER,
  ended_at INTEGER,
  CHECK ((acquired_at IS NULL) = (worker IS NULL)),
  CHECK (
    state = 'queued' AND acquired_at IS NULL AND ended_at IS NULL
    OR ready = 0 AND (
      (state = 'acquired' OR state = 'running') AND acquired_at IS NOT NULL AND ended_at IS NULL
      OR (state = 'reported' OR state = 'expired') AND acquired_at IS NOT NULL AND ended_at IS NOT NULL
      OR state = 'cancelled' AND ended_at IS NOT NULL))
) STRICT;

-- Queued, in the order in which a lane's leases are taken.
CREATE INDEX leases_ready ON leases (lane, campaign, priority DESC, id) WHERE ready = 1;
CREATE INDEX leases_delayed ON leases (ready_at) WHERE ready_at IS NOT NULL;
-- Live, by who holds it.
CREATE INDEX leases_live ON leases (worker, slots)
  WHERE acquired_at IS NOT NULL AND ended_at IS NULL;
-- Two open leases of one job cannot be.
CREATE UNIQUE INDEX leases_open ON leases (job_id) WHERE ended_at IS NULL;
CREATE INDEX leases_by_job ON leases (job_id, id);

CREATE TABLE lease_workers (
  name TEXT PRIMARY KEY,
  pool TEXT NOT NULL,
  version TEXT NOT NULL,
  runners TEXT NOT NULL,
  labels TEXT NOT NULL,
  incarnation TEXT,
  -- JSON list of incarnations that were replaced, newest last.
  former TEXT NOT NULL DEFAULT '[]',
  -- 1: this incarnation gets one lease, which is then `once_lease`.
  once INTEGER NOT NULL DEFAULT 0,
  once_lease INTEGER,
  -- The highest message that it has read.
  cursor INTEGER NOT NULL,
  -- As of the last time that it was written down; the server's memory has the newest.
  sample TEXT NOT NULL,
  seen_at INTEGER NOT NULL,
  no_lease TEXT,
  joined_at INTEGER NOT NULL,
  drained_at INTEGER,
  paused_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE lease_messages (
  -- Given by the server, above every cursor that it has seen. The newest row is never deleted.
  id INTEGER PRIMARY KEY,
  worker TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'prompt' OR kind = 'revoke' OR kind = 'drain'),
  lease INTEGER,
  -- What is prompted, and the worker's answer: error null is delivered.
  prompt INTEGER,
  prompt_text TEXT,
  answered_at INTEGER,
  error TEXT,
  created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX lease_messages_unanswered ON lease_messages (worker, id) WHERE answered_at IS NULL;

CREATE TABLE lease_events (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  event TEXT NOT NULL,
  job_id INTEGER,
  lease INTEGER,
  worker TEXT,
  -- The request id of a stale report, which is kept once.
  request TEXT,
  fields TEXT
) STRICT;

CREATE INDEX lease_events_by_job ON lease_events (job_id, id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX lease_events_stale ON lease_events (lease, request)
  WHERE event = 'stale_report';
CREATE INDEX lease_events_stale_ids ON lease_events (id) WHERE event = 'stale_report';
