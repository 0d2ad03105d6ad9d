-- Schema version 25: what a dispatch says of itself (sessions before this have neither), and pinned baselines.

ALTER TABLE session ADD COLUMN suite TEXT NOT NULL DEFAULT '';   -- the operator's suite that it measures
ALTER TABLE session ADD COLUMN note TEXT NOT NULL DEFAULT '';    -- what the operator wants to remember of it

CREATE TABLE pin (
    pattern TEXT PRIMARY KEY,          -- of model names, as a glob
    model TEXT NOT NULL,               -- their scores are compared with this one's
    who TEXT NOT NULL,
    created TEXT NOT NULL
) STRICT;

CREATE INDEX job_given ON job (model, grader, finished) WHERE grader_version = 'given';   -- scores without samples
CREATE INDEX session_of_suite ON session (suite) WHERE suite <> '';
