-- Why a worker was drained or paused, and (milliseconds since 1970 UTC) when the leases that a drained one still holds
-- are taken from it; null: never.
ALTER TABLE lease_workers ADD COLUMN standing_reason TEXT;
ALTER TABLE lease_workers ADD COLUMN drain_by INTEGER;
