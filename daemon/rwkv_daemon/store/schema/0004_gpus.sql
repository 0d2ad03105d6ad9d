-- Schema version 4: GPUs that were ever seen, and what is held against them.

CREATE TABLE gpu (
    id TEXT PRIMARY KEY,               -- its UUID; of a MIG instance, that one's
    parent TEXT NOT NULL,              -- of an instance: the card's UUID
    position INTEGER NOT NULL,         -- NVML's index when it was last seen: for people, never an identity
    slot INTEGER,                      -- of an instance: its place on the card
    name TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    record TEXT NOT NULL               -- quarantine, reservation, draining, failures ... as JSON
) STRICT;

CREATE TABLE gpu_contention (          -- when somebody else computed on a GPU that an engine of ours held
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    gpu TEXT NOT NULL,
    began TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '',    -- empty: it goes on
    who TEXT NOT NULL
) STRICT;
CREATE INDEX gpu_contention_by_gpu ON gpu_contention (gpu, began);
