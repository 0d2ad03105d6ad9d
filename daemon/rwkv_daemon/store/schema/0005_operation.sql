-- Schema version 5: what the operator put aside, what is to become of what runs, how attempts went.

CREATE TABLE pause (              -- wider than one job: its jobs stay queued, and go on when it is lifted
    scope TEXT NOT NULL,          -- queue | model | group | node (a drain)
    name TEXT NOT NULL,           -- of the model or the group
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT;

ALTER TABLE job ADD COLUMN wanted TEXT NOT NULL DEFAULT '';          -- pause | hold: once its runner has ended
ALTER TABLE job ADD COLUMN wanted_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN wanted_why TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN failure TEXT NOT NULL DEFAULT '';         -- infrastructure | model | benchmark | judge
ALTER TABLE job ADD COLUMN engine_deaths INTEGER NOT NULL DEFAULT 0; -- in a row under this job, without progress
ALTER TABLE job ADD COLUMN died_at INTEGER NOT NULL DEFAULT 0;       -- its stages_done at the last of them
ALTER TABLE attempt ADD COLUMN rung INTEGER NOT NULL DEFAULT 0;      -- how far its end was pressed: stopping.Rung
ALTER TABLE attempt ADD COLUMN failure TEXT NOT NULL DEFAULT '';
ALTER TABLE attempt ADD COLUMN why TEXT NOT NULL DEFAULT '';
CREATE INDEX event_by_job ON event (job, seq) WHERE job IS NOT NULL;
CREATE INDEX event_by_engine ON event (engine, seq) WHERE engine IS NOT NULL;
