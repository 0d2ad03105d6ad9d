"""Rows of events and of the audit trail."""
