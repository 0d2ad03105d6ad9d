"""Rows of several recipes, and of others, as one file: how many of each, and in which order."""
