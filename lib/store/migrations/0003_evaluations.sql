-- Campaigns, their candidates and evaluations. Times are milliseconds since 1970 UTC; JSON columns are text.

CREATE TABLE campaigns (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  -- The root of its checkout: the repo of record.
  path TEXT NOT NULL UNIQUE,
  -- The campaign's file, checked: what runs until it is registered again.
  config TEXT NOT NULL,
  -- What measures, as a hash: scores of two evaluators are not comparable.
  evaluator TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

-- Commits that were asked for.
CREATE TABLE candidates (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  campaign INTEGER NOT NULL REFERENCES campaigns (id),
  revision TEXT NOT NULL,
  subject TEXT NOT NULL,
  UNIQUE (campaign, revision)
) STRICT;

CREATE TABLE evaluations (
  -- AUTOINCREMENT: the id is the key of its job and part of its place, and must never come back.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  campaign INTEGER NOT NULL REFERENCES campaigns (id),
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  -- The candidate that runs beside it.
  bar INTEGER REFERENCES candidates (id),
  evaluator TEXT NOT NULL,
  bar_evaluator TEXT,
  state TEXT NOT NULL DEFAULT 'waiting'
    CHECK (state IN ('waiting', 'running', 'measured', 'failed', 'cancelled')),
  repeats INTEGER NOT NULL,
  -- Names of the metrics that every run must print, as JSON.
  required TEXT NOT NULL,
  pool TEXT,
  priority INTEGER NOT NULL DEFAULT 0,
  -- The lease engine's job; null until it is submitted.
  job INTEGER UNIQUE,
  -- The job's JSON until it is submitted: a server that died between the two submits it when it starts.
  job_text TEXT,
  worker TEXT,
  lease INTEGER,
  attempts INTEGER NOT NULL DEFAULT 0,
  metrics TEXT NOT NULL DEFAULT '{}',
  samples TEXT NOT NULL DEFAULT '[]',
  bar_samples TEXT NOT NULL DEFAULT '[]',
  files TEXT NOT NULL DEFAULT '{}',
  error TEXT,
  seconds REAL,
  comparison TEXT,
  requested_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  CHECK ((ended_at IS NULL) = (state IN ('waiting', 'running')))
) STRICT;

CREATE INDEX evaluations_by_campaign ON evaluations (campaign, id);
CREATE INDEX evaluations_by_state ON evaluations (state, id);
CREATE INDEX evaluations_unsubmitted ON evaluations (id) WHERE job IS NULL AND state = 'waiting';
CREATE INDEX evaluations_uncompared ON evaluations (id)
  WHERE bar IS NOT NULL AND comparison IS NULL AND state IN ('measured', 'failed');

-- Results by unit, apart from the rows that lists read: they can be large.
CREATE TABLE evaluation_units (
  evaluation INTEGER NOT NULL REFERENCES evaluations (id),
  side TEXT NOT NULL CHECK (side IN ('candidate', 'bar')),
  -- The index of the run among its side's samples.
  run INTEGER NOT NULL,
  units TEXT NOT NULL,
  PRIMARY KEY (evaluation, side, run)
) STRICT, WITHOUT ROWID;

-- The blob from which a worker's new clone starts.
CREATE TABLE first_transfers (
  campaign INTEGER PRIMARY KEY REFERENCES campaigns (id),
  revision TEXT NOT NULL,
  blob TEXT NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;
