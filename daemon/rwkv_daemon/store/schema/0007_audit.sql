-- Schema version 7: who changed what. Rows are only ever added.

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    uid INTEGER NOT NULL,         -- as the kernel says; -1: a client with a token, which `name` names
    gid INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    name TEXT NOT NULL,
    verb TEXT NOT NULL,
    target TEXT NOT NULL,
    outcome TEXT NOT NULL,        -- done | unchanged | repeated | refused: CODE | failed: CODE, or the actor's own word
    data TEXT NOT NULL DEFAULT '{}'   -- what was asked, as JSON; never a secret
) STRICT;

-- SQLite only: whoever gets at the file by SQL at least does not rewrite it by mistake
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is only added to');
-- SQLite only
END;
-- SQLite only
CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is only added to');
-- SQLite only
END;
