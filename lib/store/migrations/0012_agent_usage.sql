-- An agent's tokens are those of its whole session's file. What the agents before it had used when it began to go on with
-- that session is theirs: null for none.

ALTER TABLE agents ADD COLUMN usage_before TEXT;
UPDATE agents SET usage_before = (SELECT earlier.usage FROM agents earlier WHERE earlier.id = agents.resumes)
WHERE resumes IS NOT NULL;

-- Jobs of lost agents that were recovered stayed dead.
UPDATE jobs SET state = 'reported', reason = NULL
WHERE state = 'dead' AND kind = 'agent'
  AND id IN (SELECT job FROM agents WHERE state IN ('landing', 'finished', 'failed'));
