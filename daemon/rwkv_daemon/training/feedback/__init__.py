"""Feedback on a checkpoint: its scores against the baseline and the best so far, and what it gets wrong."""
