-- Schema version 17: which texts cannot be in which samples of large jobs, so that a search reads few of them.

CREATE TABLE search_index (       -- jobs whose samples are all in search_block
    job INTEGER PRIMARY KEY REFERENCES job (id),
    grade_key TEXT NOT NULL,
    finished TEXT NOT NULL        -- the job's when it was indexed: one that was graded again has another
) STRICT;

CREATE TABLE search_block (       -- samples of some rows that follow each other
    job INTEGER NOT NULL REFERENCES job (id),
    first INTEGER NOT NULL,       -- row
    last INTEGER NOT NULL,        -- row
    samples INTEGER NOT NULL,
    grams BLOB NOT NULL,          -- a bit for each piece of their texts: rwkv_daemon.grams
    PRIMARY KEY (job, first)
) STRICT;
