-- Secrets of a home and its campaigns, sealed with a key that is not in this database. Times are milliseconds since 1970.

CREATE TABLE secrets (
  id INTEGER PRIMARY KEY,
  -- Whose it is; null: the home's.
  campaign INTEGER REFERENCES campaigns (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  -- Version, nonce, ciphertext and tag.
  sealed BLOB NOT NULL,
  -- Which key sealed it.
  key_id TEXT NOT NULL,
  set_at INTEGER NOT NULL,
  set_by TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX secrets_by_owner ON secrets (coalesce(campaign, 0), name);
