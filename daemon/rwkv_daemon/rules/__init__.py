"""Pure tables and decisions. Nothing here has effects, and nothing but the protocol is imported."""
