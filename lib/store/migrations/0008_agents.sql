-- Agents, the prompts that they got, and what running jobs sent of their sessions and logs. Times are milliseconds since
-- 1970 UTC; JSON columns are text.

CREATE TABLE agents (
  -- AUTOINCREMENT: the id is the key of its job, and part of its place and of the names of its refs.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  campaign INTEGER NOT NULL REFERENCES campaigns (id),
  role TEXT NOT NULL,
  harness TEXT NOT NULL,
  model TEXT,
  effort TEXT,
  -- What was asked of it.
  prompt TEXT NOT NULL,
  base TEXT NOT NULL,
  subject TEXT NOT NULL,
  -- Its shared workspace as it was when the job was made: the address of the manifest.
  workspace TEXT,
  timeout REAL NOT NULL,
  -- The agent whose session it goes on with.
  resumes INTEGER REFERENCES agents (id),
  -- Whether a later prompt can go on with its session.
  resumable INTEGER NOT NULL CHECK (resumable = 0 OR resumable = 1),
  -- Of its session's file: claude, codex or pi.
  format TEXT,
  -- What a worker must be, as JSON: {pool, runner, labels}.
  requires TEXT NOT NULL,
  -- Variables that its request gives it, with the names of their secrets.
  secrets TEXT NOT NULL,
  priority INTEGER NOT NULL DEFAULT 0,
  dedup TEXT,
  -- `landing`: its report is taken, and its commits and files are being put where they belong.
  state TEXT NOT NULL DEFAULT 'waiting' CHECK (
    state IN ('waiting', 'running', 'landing', 'finished', 'failed', 'cancelled', 'lost')),
  -- The lease engine's job; null until it is submitted, and its JSON until then.
  job INTEGER UNIQUE,
  job_text TEXT,
  worker TEXT,
  lease INTEGER,
  attempts INTEGER NOT NULL DEFAULT 0,
  session_id TEXT,
  -- Its session's file as it was left: {file, name, cwd}.
  session TEXT,
  usage TEXT,
  seconds REAL,
  exit_code INTEGER,
  timed_out INTEGER NOT NULL DEFAULT 0,
  changed INTEGER,
  error TEXT,
  files TEXT NOT NULL DEFAULT '{}',
  -- The report, until what it brings has landed.
  report TEXT,
  -- What landed of it.
  landed TEXT,
  requested_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  CHECK ((ended_at IS NULL) = (state IN ('waiting', 'running', 'landing'))),
  CHECK (state <> 'landing' OR report IS NOT NULL)
) STRICT;

CREATE INDEX agents_by_campaign ON agents (campaign, id);
CREATE INDEX agents_by_state ON agents (state, id);
CREATE INDEX agents_unsubmitted ON agents (id) WHERE job IS NULL AND state = 'waiting';
CREATE INDEX agents_by_dedup ON agents (campaign, dedup) WHERE dedup IS NOT NULL;
CREATE INDEX agents_resumed ON agents (resumes) WHERE resumes IS NOT NULL;

CREATE TABLE agent_prompts (
  -- AUTOINCREMENT: workers remember which ones they delivered.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent INTEGER NOT NULL REFERENCES agents (id),
  text TEXT NOT NULL,
  -- `waiting`: for the agent to start; `sent`: to its worker; `queued`: for its next turn. The others are its end.
  state TEXT NOT NULL CHECK (
    state IN ('waiting', 'sent', 'queued', 'read', 'unread', 'refused')),
  error TEXT,
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,
  answered_at INTEGER
) STRICT;

CREATE INDEX agent_prompts_by_agent ON agent_prompts (agent, id);

-- What a job writes while it runs, by attempt.
CREATE TABLE streams (
  lease INTEGER NOT NULL,
  stream TEXT NOT NULL,
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  -- Bytes written so far, those that are kept no more among them.
  size INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (lease, stream)
) STRICT, WITHOUT ROWID;

CREATE INDEX streams_by_job ON streams (job, lease, stream);

-- The bytes of `position` and on, in the CAS.
CREATE TABLE stream_parts (
  lease INTEGER NOT NULL,
  stream TEXT NOT NULL,
  position INTEGER NOT NULL,
  bytes INTEGER NOT NULL CHECK (bytes > 0),
  blob TEXT NOT NULL,
  PRIMARY KEY (lease, stream, position),
  FOREIGN KEY (lease, stream) REFERENCES streams (lease, stream) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
