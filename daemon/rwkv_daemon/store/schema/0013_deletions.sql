-- Schema version 13: jobs that were deleted, until `prune` removes them for good.

CREATE TABLE deletion (
    job INTEGER PRIMARY KEY REFERENCES job (id),
    at TEXT NOT NULL,
    was TEXT NOT NULL,                 -- the job's state before
    pruned INTEGER NOT NULL DEFAULT 0  -- 1: its files and rows are being removed, and nothing brings it back
) STRICT;
CREATE INDEX deletion_by_age ON deletion (at);

CREATE TABLE deleted_score (           -- rows of `score` of deleted jobs, so that nothing that reads scores sees them
    job INTEGER NOT NULL REFERENCES job (id),
    grade_key TEXT NOT NULL,
    finished TEXT NOT NULL,
    view TEXT NOT NULL,
    PRIMARY KEY (job, grade_key)
) STRICT;
