-- Schema version 8: the outbox of notifications, and up to which event it was filled.

CREATE TABLE notification (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    target TEXT NOT NULL,         -- the name of a table [[notify]]
    notice TEXT NOT NULL,         -- what the receiver knows it by: the same one is never put in twice
    event TEXT NOT NULL,          -- job-failed | queue-empty | ...
    at TEXT NOT NULL,
    body TEXT NOT NULL,           -- what is sent, as JSON; never a secret
    state TEXT NOT NULL,          -- waiting | sent | given-up
    tries INTEGER NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '',  -- of the last try
    ended TEXT NOT NULL DEFAULT '',
    UNIQUE (target, notice)
) STRICT;
CREATE INDEX notification_waiting ON notification (target, state, id);
CREATE INDEX notification_ended ON notification (ended) WHERE ended <> '';

CREATE INDEX audit_by_target ON audit (target);  -- who dispatched a session, for the job log

CREATE TABLE notified (           -- one row: where the look at events goes on
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    busy INTEGER NOT NULL         -- 1: there was work since the queue was last said to be empty
) STRICT;
