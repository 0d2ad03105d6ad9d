-- Schema version 15: scores are found by the weights they are of, whatever name the checkpoint had.

CREATE INDEX job_by_weights ON job (weights_sha256);
CREATE INDEX job_of_same_work ON job (model, weights_sha256) WHERE state = 'done' AND reason = 'done';
