"""Checkpoints that lie on this machine: their names, files and checksums."""
