"""Graders of mathematical answers; comparisons with SymPy run in worker processes."""
