"""Changes of the store: a transaction with its events, the audit trail, and a job as events show it."""
