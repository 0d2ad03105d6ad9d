-- Schema version 18: changes of very many jobs, which are carried out some hundreds at a time.

CREATE TABLE bulk (                -- what somebody wants done with every job of a kind; a restart goes on with it
    id TEXT PRIMARY KEY,           -- of the request, which asks again until all is done
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    act TEXT NOT NULL,             -- stop | resume | retry | delete
    session TEXT NOT NULL,         -- empty: of any
    model TEXT NOT NULL,
    state TEXT NOT NULL,           -- of a deletion
    upto INTEGER NOT NULL,         -- the newest job when it was asked for: later ones are left alone
    reached INTEGER NOT NULL DEFAULT 0,   -- jobs up to this number were looked at
    changed INTEGER NOT NULL DEFAULT 0,
    unchanged INTEGER NOT NULL DEFAULT 0,
    ended TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX bulk_by_end ON bulk (ended, at);

CREATE INDEX job_with_samples ON job (done) WHERE done > 0;   -- how many samples there are, among many jobs
