-- Schema version 24: folders in which a training run leaves checkpoints, and what became of each of those.

CREATE TABLE watch (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,         -- the models' names begin with it
    root TEXT NOT NULL,                -- the folder, without links in its path
    inode INTEGER NOT NULL,            -- of the folder: an empty mount point is another one
    state TEXT NOT NULL,               -- watching | paused
    detail TEXT NOT NULL DEFAULT '',   -- why the folder cannot be read
    rules TEXT NOT NULL,               -- which files, when they are ready, which are measured: JSON
    selection TEXT NOT NULL,           -- what is measured, as a dispatch has it: JSON
    who TEXT NOT NULL,
    created TEXT NOT NULL
) STRICT;

CREATE TABLE watched (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    watch INTEGER NOT NULL,
    name TEXT NOT NULL,                -- of the file or folder, below the root
    identity TEXT NOT NULL,            -- device:inode:size:time of the last change in ns
    whole TEXT NOT NULL DEFAULT '',    -- its identity when it was found to be complete
    modified_ns INTEGER NOT NULL,       -- by the clock of the machine that wrote it
    step INTEGER,                       -- of the training run, if the name says it
    sha256 TEXT NOT NULL DEFAULT '',   -- empty until it is ready
    state TEXT NOT NULL,               -- settling | ready | dispatched | done | superseded | parked | vanished
    left_out TEXT NOT NULL DEFAULT '', -- why it is superseded: newer | not-due | copy | skipped
    wanted INTEGER NOT NULL DEFAULT 0, -- 1: an operator wants it measured, whatever the policy says
    reason TEXT NOT NULL DEFAULT '',
    tries INTEGER NOT NULL DEFAULT 0,  -- how often it could not be read or queued
    model TEXT NOT NULL DEFAULT '',    -- the name under which it is measured
    session TEXT NOT NULL DEFAULT '',
    jobs TEXT NOT NULL DEFAULT '[]',   -- numbers of all jobs that measure it
    own_jobs TEXT NOT NULL DEFAULT '[]', -- those that the watch queued, or resumed
    seen TEXT NOT NULL,
    ready TEXT NOT NULL DEFAULT '',
    dispatched TEXT NOT NULL DEFAULT '',
    finished TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX watched_by_watch ON watched (watch, id);

ALTER TABLE weights ADD COLUMN problem TEXT NOT NULL DEFAULT '';  -- why a whole file is no checkpoint that can be run
