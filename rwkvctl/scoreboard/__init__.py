"""Scores of many models on many benchmarks: the table that the report and the console share."""
