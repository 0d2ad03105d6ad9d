"""Graders of code: extraction of the code, test programs, grades."""
