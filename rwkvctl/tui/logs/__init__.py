"""Logs on the console: sources, merging, filters, the view."""
