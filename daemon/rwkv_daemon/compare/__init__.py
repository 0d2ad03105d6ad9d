"""Scores side by side: what differs, flips, and a job against the run before it."""
