"""Messages that cross a socket or lie in a run directory. Standard library and msgspec only."""
