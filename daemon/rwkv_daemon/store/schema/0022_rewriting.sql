-- Schema version 22: jobs whose completions a writer makes of another job's right samples.

ALTER TABLE job ADD COLUMN source_job INTEGER;  -- the job whose samples it rewrites; its configuration says by which rule
CREATE INDEX job_by_source ON job (source_job) WHERE source_job IS NOT NULL;
