-- How long a job may run once it has started, in milliseconds; null: as long as it takes.
ALTER TABLE jobs ADD COLUMN timeout_ms INTEGER CHECK (timeout_ms > 0);
