-- Tokens and settings of a home. Times are milliseconds since 1970 UTC.

CREATE TABLE tokens (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  access TEXT NOT NULL CHECK (access IN ('read', 'act', 'admin', 'worker')),
  -- The only pool whose leases it may take; null: any.
  pool TEXT,
  -- Hex SHA-256 of the secret, which itself is shown once and kept nowhere.
  sha256 TEXT NOT NULL UNIQUE CHECK (length(sha256) = 64),
  created_at INTEGER NOT NULL,
  expires_at INTEGER
) STRICT;

CREATE TABLE settings (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;
