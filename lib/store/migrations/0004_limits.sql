-- What operators set over the config, on keys that may change while the server runs. Times are milliseconds since 1970
-- UTC.

CREATE TABLE limits (
  key TEXT PRIMARY KEY,
  -- JSON: a number, or null for no bound.
  value TEXT NOT NULL,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
