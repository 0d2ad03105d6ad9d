"""Every change of the node: one transaction with its events, the audit, and views of the state."""
