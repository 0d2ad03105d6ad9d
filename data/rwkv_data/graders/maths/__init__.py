"""Graders of mathematical answers."""
