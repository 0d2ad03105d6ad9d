-- Schema version 10: pages of jobs of one state by number, among ten thousand of another.

CREATE INDEX job_in_state ON job (state, id);
