-- Schema version 19: a job of a checkpoint that its user has shown remembers which files these were ("device:inode",
-- with commas): no other file that a link puts in their place is hashed or measured for them.

ALTER TABLE job ADD COLUMN weights_inodes TEXT NOT NULL DEFAULT '';
