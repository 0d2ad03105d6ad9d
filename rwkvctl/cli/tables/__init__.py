"""Replies of the daemon as tables, a file per subject."""
