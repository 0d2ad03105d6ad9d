"""Widgets that know nothing of jobs: tables, text, charts."""
