"""rwkvctl: what the operator runs (protocol, client, CLI, console)."""

__version__ = "0.1.0"
