-- Schema version 2: what further measures, extraction and judging say of a sample.

ALTER TABLE grade ADD COLUMN route TEXT NOT NULL DEFAULT '';     -- the rule that found the extracted text
ALTER TABLE grade ADD COLUMN parts TEXT NOT NULL DEFAULT '{}';   -- further measures of the sample, as JSON
ALTER TABLE grade ADD COLUMN judge TEXT NOT NULL DEFAULT '{}';   -- what the judge said: model, replies, tokens, as JSON
ALTER TABLE completion ADD COLUMN greedy TEXT NOT NULL DEFAULT '[]';  -- of scored continuations, as JSON
ALTER TABLE job ADD COLUMN grading TEXT NOT NULL DEFAULT '{}';   -- what the grade key covers beside grader and version
ALTER TABLE job ADD COLUMN checking TEXT NOT NULL DEFAULT '';    -- wrong answers go to the checker: wanted | done
CREATE INDEX job_to_check ON job (checking) WHERE checking = 'wanted';

CREATE TABLE verdict (            -- a judge's replies by the hash of all that was asked: nothing is paid for twice
    key TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    service TEXT NOT NULL,        -- whose budget paid for it: judge | checker
    verdict TEXT NOT NULL         -- the reply with all usage paid under this key, as JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE finding (            -- what the checker says of a wrong answer
    sample INTEGER NOT NULL REFERENCES sample (number),
    grade_key TEXT NOT NULL,
    job INTEGER NOT NULL REFERENCES job (id),
    needs_review INTEGER NOT NULL,
    reviewed TEXT NOT NULL DEFAULT '',   -- what a person decided: right | wrong
    finding TEXT NOT NULL,        -- as JSON
    PRIMARY KEY (sample, grade_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX finding_by_review ON finding (needs_review, reviewed, job);

CREATE TABLE promotion (          -- a point that a search chose, and on which rows it was chosen
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    model TEXT NOT NULL,
    weights_sha256 TEXT NOT NULL,
    promotion TEXT NOT NULL       -- as JSON: searches, settings, objective
) STRICT;
