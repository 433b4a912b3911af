-- How often a job was given back for a fault of its worker's machine, which is none of its attempts, up to a bound.
ALTER TABLE jobs ADD COLUMN host_faults INTEGER NOT NULL DEFAULT 0;
-- When (milliseconds since 1970 UTC) the process that has the name said that it ended; null: it did not.
ALTER TABLE lease_workers ADD COLUMN left_at INTEGER;
