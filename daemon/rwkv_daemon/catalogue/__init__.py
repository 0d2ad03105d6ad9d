"""Checkpoints and benchmarks on the disk, as facts for planning."""
