"""Every change of the node: one transaction with its events, the audit, and a job as events show it."""
