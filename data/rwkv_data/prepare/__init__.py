"""Fetch the sources of benchmarks and prepare their rows."""
