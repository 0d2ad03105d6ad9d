"""The life of a job: its runner, its stopping, its outcome, its scores."""
