"""Samples on the console: pages, filters, the table."""
