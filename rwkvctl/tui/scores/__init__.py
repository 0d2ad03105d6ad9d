"""Scores on the console: the matrix, runs, comparisons, curves."""
