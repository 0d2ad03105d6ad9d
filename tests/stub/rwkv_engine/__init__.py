"""Stands in for the real engine package where a test puts `tests/stub` on PYTHONPATH: see `__main__`."""
