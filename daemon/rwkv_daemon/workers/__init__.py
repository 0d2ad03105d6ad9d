"""Processes that the daemon starts: the shim, control groups, run directories."""
