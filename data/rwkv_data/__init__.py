"""What is asked and how it is graded: benchmarks, prompts, graders, statistics, preparation of rows.

Importing this package, its registry and its benchmarks is light: datasets, sympy and math-verify are imported only by
the functions (and the child process) that need them, torch never.
"""
