"""Checkpoints on this machine: their names, files and checksums."""
