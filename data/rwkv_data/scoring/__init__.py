"""Compute scores and their statistics from graded samples."""
