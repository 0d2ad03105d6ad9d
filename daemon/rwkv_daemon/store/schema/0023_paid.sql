-- Schema version 23: which job paid for a reply, so that what a job has cost is known, unusable replies included.

ALTER TABLE verdict ADD COLUMN job TEXT NOT NULL DEFAULT '';  -- j12; empty: no job, or a reply from before this version
CREATE INDEX verdict_by_job ON verdict (job, service, prompt_tokens, completion_tokens, cost) WHERE job <> '';
