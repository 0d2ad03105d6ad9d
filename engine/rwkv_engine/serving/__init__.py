"""The engine as a process: its routes, and the requests in flight."""
