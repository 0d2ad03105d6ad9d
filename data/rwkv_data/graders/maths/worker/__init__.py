"""The process that compares mathematical answers: SymPy and math-verify run nowhere else."""
