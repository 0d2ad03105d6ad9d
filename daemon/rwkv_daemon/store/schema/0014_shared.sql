-- Schema version 14: jobs that differ in their grader alone share a generation key, and the completions under it.

CREATE INDEX job_by_generation ON job (generation_key);
