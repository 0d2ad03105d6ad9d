-- Schema version 16: ends of a job's processes that somebody outside caused.

ALTER TABLE job ADD COLUMN kills INTEGER NOT NULL DEFAULT 0;      -- in a row, of its runners and their engines, without progress
ALTER TABLE job ADD COLUMN killed_at INTEGER NOT NULL DEFAULT 0;  -- its stages_done at the last of them
