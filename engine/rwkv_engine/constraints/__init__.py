"""Constrained decoding: grammars, compiled in a child process."""
