"""The life of a job: its runner, stops, the end of each attempt, and its score."""
