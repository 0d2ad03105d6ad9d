"""Graders of code: extraction, test programs, verdicts."""
