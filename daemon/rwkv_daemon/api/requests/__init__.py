"""The answers, one file per group of requests."""
