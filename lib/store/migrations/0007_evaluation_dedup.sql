-- What the asker named its request, so that asking again makes nothing twice.
ALTER TABLE evaluations ADD COLUMN dedup TEXT;
CREATE INDEX evaluations_by_dedup ON evaluations (campaign, dedup, id) WHERE dedup IS NOT NULL;
