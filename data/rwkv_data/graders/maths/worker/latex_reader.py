"""SymPy's LaTeX reader, made to accept every antlr runtime from 4.10 on."""

from collections.abc import Callable
from typing import Any


def latex_reader() -> Callable[[str], Any]:
    """sympy's own LaTeX reader. It asks for antlr 4.11, though its grammar is read by every runtime from 4.10 on."""
    from sympy.parsing.latex import _parse_latex_antlr, parse_latex

    _parse_latex_antlr.version = lambda _: "4.11"
    reader: Callable[[str], Any] = parse_latex
    return reader
