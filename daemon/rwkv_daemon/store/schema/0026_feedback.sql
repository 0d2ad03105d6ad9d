-- Schema version 26: for which end of its jobs the feedback on a watched checkpoint was written.

ALTER TABLE watched ADD COLUMN feedback TEXT NOT NULL DEFAULT '';  -- `finished` at that time
UPDATE watched SET feedback = finished;                            -- what is over is no news
