-- Schema version 20: a file of weights is known by the time of its last change (ctime), which the kernel alone sets,
-- and no longer by that of its last writing (mtime), which its owner can set. What was hashed before is hashed again.

ALTER TABLE weights RENAME COLUMN mtime_ns TO changed_ns;
