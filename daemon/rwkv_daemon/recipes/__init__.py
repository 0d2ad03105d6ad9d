"""Recipes of training data: waiting for their jobs, and making their rows in a process of its own."""
