-- Schema version 3: who holds which part of a GPU, what engines showed there, how long samples take, groups of jobs.

CREATE TABLE lease (              -- an eighth of a GPU each (`rwkv_daemon.leases.SLOTS`), while an engine holds it
    gpu TEXT NOT NULL,            -- UUID, or cpu:0
    slot INTEGER NOT NULL,
    engine INTEGER NOT NULL REFERENCES engine (id),
    PRIMARY KEY (gpu, slot)       -- the store itself refuses to give a part away twice
) STRICT;
CREATE INDEX lease_by_engine ON lease (engine);
INSERT INTO lease (gpu, slot, engine)      -- engines of the version before hold whole leases
SELECT engine.lease, part.slot, MAX(engine.id)
FROM engine CROSS JOIN (
    SELECT 0 AS slot UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3
    UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7
) AS part
WHERE engine.state IN ('starting', 'loading', 'ready', 'unloading')
GROUP BY engine.lease, part.slot;

CREATE TABLE engine_fit (         -- what engines of these weights showed on this kind of device
    weights_sha256 TEXT NOT NULL,
    numerics TEXT NOT NULL,
    device TEXT NOT NULL,         -- the GPU's name, or CPU
    slots INTEGER NOT NULL DEFAULT 0,      -- sequences at once that fit after memory ran out; 0: it never did
    bytes INTEGER NOT NULL DEFAULT 0,      -- the most memory that one took of a shared GPU; 0: not measured
    load_s REAL NOT NULL DEFAULT 0,        -- from start to ready; 0: not measured
    PRIMARY KEY (weights_sha256, numerics, device)
) STRICT;

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

ALTER TABLE job ADD COLUMN group_name TEXT NOT NULL DEFAULT '';   -- jobs of one group share a limit: [groups]
