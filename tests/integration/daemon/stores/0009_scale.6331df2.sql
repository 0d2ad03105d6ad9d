-- Schema version 9: what was paid in columns, so that a budget is one sum; indexes for millions of samples.

ALTER TABLE verdict ADD COLUMN prompt_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE verdict ADD COLUMN completion_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE verdict ADD COLUMN cost REAL NOT NULL DEFAULT 0;
-- SQLite only: stores in PostgreSQL are younger than this
UPDATE verdict SET prompt_tokens = verdict ->> '$.usage.prompt_tokens',
    completion_tokens = verdict ->> '$.usage.completion_tokens', cost = verdict ->> '$.usage.cost';

CREATE INDEX sample_by_age ON sample (job, number);      -- the newest samples of a job
DROP INDEX job_by_name;
CREATE INDEX job_by_name ON job (model, benchmark, kind, numerics, id);
CREATE INDEX score_by_age ON score (job, finished);
CREATE INDEX request_by_age ON request (at);
CREATE INDEX verdict_by_service ON verdict (service, at, prompt_tokens, completion_tokens, cost);
