"""Logs of jobs, engines and the daemon: read, followed, removed."""
