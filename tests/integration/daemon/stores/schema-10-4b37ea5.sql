BEGIN TRANSACTION;
CREATE TABLE attempt (            -- one launch of a runner; only stored attempts are ingested
    job INTEGER NOT NULL REFERENCES job (id),
    number INTEGER NOT NULL,
    uuid TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,               -- running | ended | lost
    ingested INTEGER NOT NULL DEFAULT 0,  -- bytes of its samples file that are in the store
    started TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '',
    code INTEGER,
    signal INTEGER, rung INTEGER NOT NULL DEFAULT 0, failure TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (job, number)
) STRICT;
INSERT INTO "attempt" VALUES(1,1,'x','x',1,'x','x',1,1,1,'x','x');
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
INSERT INTO "audit" VALUES(1,'2026-01-01T00:00:00Z',1,1,1,'x','x','x','x','x');
CREATE TABLE benchmark (          -- row sets that were measured: what a sha256 in a score's provenance was
    rows_sha256 TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    split TEXT NOT NULL,
    rows INTEGER NOT NULL,
    licence TEXT NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (name, rows_sha256)
) STRICT;
INSERT INTO "benchmark" VALUES('x','x',1,'x',1,'x','x');
CREATE TABLE completion (
    job INTEGER NOT NULL REFERENCES job (id),
    row INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    ids TEXT NOT NULL,                 -- token ids, as JSON
    text TEXT NOT NULL,
    stop TEXT NOT NULL,
    logprobs TEXT NOT NULL,            -- of the choices, as JSON
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    generated_tokens INTEGER NOT NULL,
    engine TEXT NOT NULL,
    seconds REAL NOT NULL, greedy TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (job, row, repeat, stage)
) STRICT, WITHOUT ROWID;
INSERT INTO "completion" VALUES(1,1,1,1,1,'x','x','x','x',1,1,1,'x',1.0,'x');
CREATE TABLE engine (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    model TEXT NOT NULL,
    weights_path TEXT NOT NULL,
    weights_sha256 TEXT NOT NULL,
    numerics TEXT NOT NULL,
    lease TEXT NOT NULL,
    state TEXT NOT NULL,
    socket TEXT NOT NULL,
    health TEXT NOT NULL DEFAULT '{}', -- what it said of itself: device, versions
    detail TEXT NOT NULL DEFAULT '',
    started TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO "engine" VALUES(1,'x','x','x','x','x','x','x','x','x','x','x','x');
CREATE TABLE engine_fit (         -- what engines of these weights showed on this kind of device
    weights_sha256 TEXT NOT NULL,
    numerics TEXT NOT NULL,
    device TEXT NOT NULL,         -- the GPU's name, or CPU
    slots INTEGER NOT NULL DEFAULT 0,      -- sequences at once that fit after memory ran out; 0: it never did
    bytes INTEGER NOT NULL DEFAULT 0,      -- the most memory that one took of a shared GPU; 0: not measured
    load_s REAL NOT NULL DEFAULT 0,        -- from start to ready; 0: not measured
    PRIMARY KEY (weights_sha256, numerics, device)
) STRICT;
INSERT INTO "engine_fit" VALUES('x','x','x',1,1,1.0);
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    job INTEGER,
    engine INTEGER,
    session TEXT NOT NULL DEFAULT '',
    text TEXT NOT NULL DEFAULT '',
    data TEXT NOT NULL DEFAULT '{}'
) STRICT;
INSERT INTO "event" VALUES(1,'2026-01-01T00:00:00Z','x',1,1,'x','x','x');
CREATE TABLE finding (            -- what the checker says of a wrong answer
    sample INTEGER NOT NULL REFERENCES sample (number),
    grade_key TEXT NOT NULL,
    job INTEGER NOT NULL REFERENCES job (id),
    needs_review INTEGER NOT NULL,
    reviewed TEXT NOT NULL DEFAULT '',   -- what a person decided: right | wrong
    finding TEXT NOT NULL,        -- as JSON
    PRIMARY KEY (sample, grade_key)
) STRICT, WITHOUT ROWID;
INSERT INTO "finding" VALUES(1,'x',1,1,'x','x');
CREATE TABLE gpu (
    id TEXT PRIMARY KEY,               -- its UUID; of a MIG instance, that one's
    parent TEXT NOT NULL,              -- of an instance: the card's UUID
    position INTEGER NOT NULL,         -- NVML's index when it was last seen: for people, never an identity
    slot INTEGER,                      -- of an instance: its place on the card
    name TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    record TEXT NOT NULL               -- quarantine, reservation, draining, failures ... as JSON
) STRICT;
INSERT INTO "gpu" VALUES('x','x',1,1,'x','x','x');
CREATE TABLE gpu_contention (          -- when somebody else computed on a GPU that an engine of ours held
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    gpu TEXT NOT NULL,
    began TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '',    -- empty: it goes on
    who TEXT NOT NULL
) STRICT;
INSERT INTO "gpu_contention" VALUES(1,'x','x','x','x');
CREATE TABLE grade (
    sample INTEGER NOT NULL REFERENCES sample (number),
    grade_key TEXT NOT NULL,
    value REAL,                        -- null: there is no verdict; never a wrong answer
    reason TEXT NOT NULL,
    expected TEXT NOT NULL,
    extracted TEXT,
    detail TEXT NOT NULL, route TEXT NOT NULL DEFAULT '', parts TEXT NOT NULL DEFAULT '{}', judge TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (sample, grade_key)
) STRICT, WITHOUT ROWID;
INSERT INTO "grade" VALUES(1,'x',1.0,'x','x','x','x','x','{}','{}');
CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL REFERENCES session (id),
    model TEXT NOT NULL,
    weights_path TEXT NOT NULL,
    weights_sha256 TEXT NOT NULL,      -- empty until hashed; then the keys are filled in
    benchmark TEXT NOT NULL,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,          -- 1, 2 ... for the same (model, benchmark, kind): history is kept
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    detail TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL,
    generation_key TEXT NOT NULL,
    grade_key TEXT NOT NULL,
    settings TEXT NOT NULL,            -- what --set changed, as JSON
    configuration TEXT NOT NULL,       -- the effective configuration, as JSON
    grader TEXT NOT NULL,
    grader_version TEXT NOT NULL,
    benchmark_version INTEGER NOT NULL,
    rows_sha256 TEXT NOT NULL,
    seed INTEGER NOT NULL,
    row_limit INTEGER,
    numerics TEXT NOT NULL,
    repeats INTEGER NOT NULL,
    stages INTEGER NOT NULL,           -- stages of one sample
    total INTEGER NOT NULL,            -- samples: rows x repeats
    done INTEGER NOT NULL DEFAULT 0,   -- samples stored
    stages_done INTEGER NOT NULL DEFAULT 0,
    right_sum REAL NOT NULL DEFAULT 0, -- sum of the grades so far, for the running score
    attempt INTEGER NOT NULL DEFAULT 0,
    restarts INTEGER NOT NULL DEFAULT 0,
    engine INTEGER,
    run_log_dir TEXT NOT NULL DEFAULT '',
    queued TEXT NOT NULL,
    started TEXT NOT NULL DEFAULT '',
    finished TEXT NOT NULL DEFAULT ''
, grading TEXT NOT NULL DEFAULT '{}', checking TEXT NOT NULL DEFAULT '', group_name TEXT NOT NULL DEFAULT '', wanted TEXT NOT NULL DEFAULT '', wanted_reason TEXT NOT NULL DEFAULT '', wanted_why TEXT NOT NULL DEFAULT '', failure TEXT NOT NULL DEFAULT '', engine_deaths INTEGER NOT NULL DEFAULT 0, died_at INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "job" VALUES(1,'x','x','x','x','x','x',1,'x','x','x',1,'x','x','x','x','x','x',1,'x',1,1,'x',1,1,1,1,1,1.0,1,1,1,'x','x','x','x','x','x','x','x','x','x','x',1,1);
CREATE TABLE lease (              -- an eighth of a GPU each (`rwkv_daemon.scheduling.leases.SLOTS`), while an engine holds it
    gpu TEXT NOT NULL,            -- UUID, or cpu:0
    slot INTEGER NOT NULL,
    engine INTEGER NOT NULL REFERENCES engine (id),
    PRIMARY KEY (gpu, slot)       -- the store itself refuses to give a part away twice
) STRICT;
INSERT INTO "lease" VALUES('x',1,1);
CREATE TABLE migration (  -- schema files that were applied
    version INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
INSERT INTO "migration" VALUES(1,'6096edbac0d65882e4ea79dc5ef9e110ed8594bcf412e886ff0372a3d0f62bb7','2026-11-24T09:19:25.933Z');
INSERT INTO "migration" VALUES(2,'27727cb27c73dcde0c04b5857ecb72901451429320ac0ad562f2cfc0668652d9','2026-11-24T09:19:25.945Z');
INSERT INTO "migration" VALUES(3,'06cf8d034f23c4940764aadbb2bd9bf13aa58551e9ca88f0663cddab48d81484','2026-11-24T09:19:25.949Z');
INSERT INTO "migration" VALUES(4,'8f2ed2f148f0cb88c4689632ef5f845e86c5ca85b2248d7fbd472e87bdca9c44','2026-11-24T09:19:25.953Z');
INSERT INTO "migration" VALUES(5,'2d3f2fe7d91ac79fc02a94ecf7794ab47259b2aea44bd85443bfc8fe3f9566f0','2026-11-24T09:19:25.969Z');
INSERT INTO "migration" VALUES(6,'32e9d91a99381d400301efcefcbfe84de9d31cd631a92a3183c3898afb1f8818','2026-11-24T09:19:25.978Z');
INSERT INTO "migration" VALUES(7,'7b233e22104fe4e3d517fdf75a2301f6a5b6e0a4fb5bd4ab00c82e8b5dadf26e','2026-11-24T09:19:25.981Z');
INSERT INTO "migration" VALUES(8,'4332765c1775a543a38a45e3c76345cb26d77d939bb0de0fdbed44bbbaaaf8ff','2026-11-24T09:19:25.984Z');
INSERT INTO "migration" VALUES(9,'71dc539d3eac75ef93cdc6a8004b7225c0d36bbed39badac1c8507f6f7dece53','2026-11-24T09:19:25.989Z');
INSERT INTO "migration" VALUES(10,'c982fe0d07d270c3bd5a0b7fbc695c0f90885199e90e7700d05f8fa72cf2b5a5','2026-11-24T09:19:25.997Z');
CREATE TABLE model (              -- checkpoints that were measured, by content
    sha256 TEXT NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    size INTEGER NOT NULL,
    first_seen TEXT NOT NULL,
    PRIMARY KEY (sha256, name)
) STRICT;
INSERT INTO "model" VALUES('x','x','x',1,'x');
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
INSERT INTO "notification" VALUES(1,'x','x','x','2026-01-01T00:00:00Z','x','x',1,'x','x');
CREATE TABLE notified (           -- one row: where the look at events goes on
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    busy INTEGER NOT NULL         -- 1: there was work since the queue was last said to be empty
) STRICT;
INSERT INTO "notified" VALUES(1,1,1);
CREATE TABLE pause (              -- wider than one job: its jobs stay queued, and go on when it is lifted
    scope TEXT NOT NULL,          -- queue | model | group | node (a drain)
    name TEXT NOT NULL,           -- of the model or the group
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT;
INSERT INTO "pause" VALUES('x','x','2026-01-01T00:00:00Z','x','x');
CREATE TABLE promotion (          -- a point that a search chose, and on which rows it was chosen
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    model TEXT NOT NULL,
    weights_sha256 TEXT NOT NULL,
    promotion TEXT NOT NULL       -- as JSON: searches, settings, objective
) STRICT;
INSERT INTO "promotion" VALUES(1,'2026-01-01T00:00:00Z','x','x','x');
CREATE TABLE prompt (             -- once per (row, stage), not per repeat
    job INTEGER NOT NULL REFERENCES job (id),
    row INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, row, stage)
) STRICT, WITHOUT ROWID;
INSERT INTO "prompt" VALUES(1,1,1,'x');
CREATE TABLE rate (               -- what a sample cost, in seconds of one engine that does nothing else
    weights_sha256 TEXT NOT NULL,
    benchmark TEXT NOT NULL,
    kind TEXT NOT NULL,
    numerics TEXT NOT NULL,
    device TEXT NOT NULL,
    sample_s REAL NOT NULL,
    samples INTEGER NOT NULL,     -- how many it was measured over
    at TEXT NOT NULL,
    PRIMARY KEY (weights_sha256, benchmark, kind, numerics, device)
) STRICT;
INSERT INTO "rate" VALUES('x','x','x','x','x',1.0,1,'2026-01-01T00:00:00Z');
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
INSERT INTO "reap_event" VALUES(1,'x','2026-01-01T00:00:00Z','x',1,1,1,'x',1,1,'x','x','x','x','x','x','x',1);
CREATE TABLE request (            -- answers to mutations by idempotency key, so that a repeat gets the same one
    id TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    reply BLOB NOT NULL
) STRICT;
INSERT INTO "request" VALUES('x','2026-01-01T00:00:00Z',X'78');
CREATE TABLE sample (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL REFERENCES job (id),
    row INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    UNIQUE (job, row, repeat)
) STRICT;
INSERT INTO "sample" VALUES(1,1,1,1,1);
CREATE TABLE score (
    job INTEGER NOT NULL REFERENCES job (id),
    grade_key TEXT NOT NULL,
    finished TEXT NOT NULL,
    view TEXT NOT NULL,                -- a ScoreView as JSON, provenance included
    PRIMARY KEY (job, grade_key)
) STRICT;
INSERT INTO "score" VALUES(1,'x','x','x');
CREATE TABLE session (            -- what one dispatch queued
    id TEXT PRIMARY KEY,
    created TEXT NOT NULL,
    selection TEXT NOT NULL,      -- the flags, as JSON
    host TEXT NOT NULL,
    rwkvctl_version TEXT NOT NULL,
    git_commit TEXT NOT NULL
) STRICT;
INSERT INTO "session" VALUES('x','x','x','x','x','x');
CREATE TABLE verdict (            -- a judge's replies by the hash of all that was asked: nothing is paid for twice
    key TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    service TEXT NOT NULL,        -- whose budget paid for it: judge | checker
    verdict TEXT NOT NULL         -- the reply with all usage paid under this key, as JSON
, prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
INSERT INTO "verdict" VALUES('x','2026-01-01T00:00:00Z','judge','{"text": "yes", "usage": {"prompt_tokens": 70, "completion_tokens": 5, "cost": 0.25}}',1,1,1.0);
CREATE TABLE weights (            -- the sha256 cache: planning never hashes
    device INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    path TEXT NOT NULL,
    broken TEXT NOT NULL DEFAULT '',   -- why it does not load, after two failures
    load_failures INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (device, inode, size, mtime_ns)
) STRICT;
INSERT INTO "weights" VALUES(1,1,1,1,'x','x','x',1);
CREATE INDEX job_by_state ON job (state, priority DESC, id);
CREATE INDEX job_by_key ON job (grade_key, state);
CREATE INDEX job_by_session ON job (session);
CREATE INDEX job_by_identity ON job (weights_path, benchmark, kind);
CREATE INDEX engine_by_state ON engine (state);
CREATE INDEX attempt_by_state ON attempt (state);
CREATE INDEX job_to_check ON job (checking) WHERE checking = 'wanted';
CREATE INDEX finding_by_review ON finding (needs_review, reviewed, job);
CREATE INDEX lease_by_engine ON lease (engine);
CREATE INDEX gpu_contention_by_gpu ON gpu_contention (gpu, began);
CREATE INDEX event_by_job ON event (job, seq) WHERE job IS NOT NULL;
CREATE INDEX event_by_engine ON event (engine, seq) WHERE engine IS NOT NULL;
CREATE INDEX reap_event_by_act ON reap_event (act, step);
CREATE INDEX reap_event_by_step ON reap_event (step, at);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is only added to');
-- SQLite only
END;
CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is only added to');
-- SQLite only
END;
CREATE INDEX notification_waiting ON notification (target, state, id);
CREATE INDEX notification_ended ON notification (ended) WHERE ended <> '';
CREATE INDEX audit_by_target ON audit (target);
CREATE INDEX sample_by_age ON sample (job, number);
CREATE INDEX job_by_name ON job (model, benchmark, kind, numerics, id);
CREATE INDEX finding_by_job ON finding (job, sample);
CREATE INDEX request_by_age ON request (at);
CREATE INDEX verdict_by_service ON verdict (service, at, prompt_tokens, completion_tokens, cost);
CREATE INDEX job_in_state ON job (state, id);
INSERT INTO "sqlite_sequence" VALUES('job',1);
INSERT INTO "sqlite_sequence" VALUES('engine',1);
INSERT INTO "sqlite_sequence" VALUES('sample',1);
INSERT INTO "sqlite_sequence" VALUES('event',1);
INSERT INTO "sqlite_sequence" VALUES('promotion',1);
INSERT INTO "sqlite_sequence" VALUES('gpu_contention',1);
INSERT INTO "sqlite_sequence" VALUES('reap_event',1);
INSERT INTO "sqlite_sequence" VALUES('audit',1);
INSERT INTO "sqlite_sequence" VALUES('notification',1);
COMMIT;
PRAGMA user_version = 10;
