-- Schema version 12: how many samples of a job have a verdict: a score so far is theirs alone.

ALTER TABLE job ADD COLUMN judged INTEGER NOT NULL DEFAULT 0;
UPDATE job SET judged = (
    SELECT COUNT(value) FROM sample s JOIN grade g ON g.sample = s.number AND g.grade_key = job.grade_key
    WHERE s.job = job.id
) WHERE state <> 'done' AND done > 0;
