-- Schema version 11: samples that the token limit cut off, and jobs of one benchmark, without reading the others.

CREATE INDEX completion_cut ON completion (stop, job, row, repeat) WHERE stop = 'length';
CREATE INDEX job_by_benchmark ON job (benchmark, id);
