-- Schema version 6: what was done about processes that hold GPUs for nobody. Rows are only ever added.

CREATE TABLE reap_event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    act TEXT NOT NULL,            -- one decision; its rows are an intent, the signals sent, and an outcome
    at TEXT NOT NULL,
    step TEXT NOT NULL,           -- intent | SIGTERM | SIGKILL | outcome
    automatic INTEGER NOT NULL,   -- 1: the daemon by itself; 0: somebody asked
    uid INTEGER NOT NULL,         -- who asked, as the kernel says
    asker_pid INTEGER NOT NULL,
    asker TEXT NOT NULL,
    pid INTEGER NOT NULL,
    start_ticks INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    class TEXT NOT NULL,
    gpus TEXT NOT NULL,           -- UUIDs, as JSON
    snapshot TEXT NOT NULL,       -- the process as it was judged, as JSON
    rules TEXT NOT NULL,          -- every rule with what it measured, as JSON
    outcome TEXT NOT NULL DEFAULT '',
    text TEXT NOT NULL DEFAULT '',
    memory_bytes INTEGER          -- in use on its GPUs then; null where that is not known
) STRICT;
CREATE INDEX reap_event_by_act ON reap_event (act, step);
CREATE INDEX reap_event_by_step ON reap_event (step, at);
