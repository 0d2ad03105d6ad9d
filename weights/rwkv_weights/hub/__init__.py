"""Checkpoints of the Hugging Face hub: what is there, what is to be fetched, and fetching it."""
