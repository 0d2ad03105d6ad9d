"""Rows that others made: conversations and pairs in files, kept for mixing."""
