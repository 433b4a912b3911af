-- What a worker was told when it registered, in seconds: a server that starts with shorter times keeps to these until the
-- worker registers again, since it stops its jobs by them. Null: it registered before this was written down.

ALTER TABLE lease_workers ADD COLUMN told_grace REAL;
ALTER TABLE lease_workers ADD COLUMN told_toleration REAL;
