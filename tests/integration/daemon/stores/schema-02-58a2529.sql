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
    signal INTEGER,
    PRIMARY KEY (job, number)
) STRICT;
INSERT INTO "attempt" VALUES(1,1,'x','x',1,'x','x',1,1);
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
, grading TEXT NOT NULL DEFAULT '{}') STRICT;
INSERT INTO "job" VALUES(1,'x','x','x','x','x','x',1,'x','x','x',1,'x','x','x','x','x','x',1,'x',1,1,'x',1,1,1,1,1,1.0,1,1,1,'x','x','x','x','x');
CREATE TABLE model (              -- checkpoints that were measured, by content
    sha256 TEXT NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    size INTEGER NOT NULL,
    first_seen TEXT NOT NULL,
    PRIMARY KEY (sha256, name)
) STRICT;
INSERT INTO "model" VALUES('x','x','x',1,'x');
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
    verdict TEXT NOT NULL         -- as JSON
) STRICT, WITHOUT ROWID;
INSERT INTO "verdict" VALUES('x','2026-01-01T00:00:00Z','{"text": "yes", "usage": {"prompt_tokens": 70, "completion_tokens": 5, "cost": 0.25}}');
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
CREATE INDEX job_by_name ON job (model, benchmark, kind, id);
CREATE INDEX job_by_identity ON job (weights_path, benchmark, kind);
CREATE INDEX engine_by_state ON engine (state);
CREATE INDEX attempt_by_state ON attempt (state);
CREATE INDEX finding_by_review ON finding (needs_review, reviewed, job);
INSERT INTO "sqlite_sequence" VALUES('job',1);
INSERT INTO "sqlite_sequence" VALUES('engine',1);
INSERT INTO "sqlite_sequence" VALUES('sample',1);
INSERT INTO "sqlite_sequence" VALUES('event',1);
INSERT INTO "sqlite_sequence" VALUES('promotion',1);
COMMIT;
PRAGMA user_version = 2;
