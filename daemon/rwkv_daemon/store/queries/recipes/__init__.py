"""Queries about recipes of training data, and about the samples that their rows are made of."""
