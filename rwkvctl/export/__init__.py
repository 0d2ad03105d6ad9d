"""Scores and samples in the forms that other programs read. `source` asks the daemon page by page, each form turns what
comes into lines, and `output` writes them whole or not at all."""
