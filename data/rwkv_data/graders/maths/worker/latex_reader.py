"""SymPy's LaTeX parser, changed to accept every antlr runtime from 4.10 on."""

from collections.abc import Callable
from typing import Any


def latex_reader() -> Callable[[str], Any]:
    """Return sympy's own LaTeX parser. It requires antlr 4.11, although every runtime from 4.10 on reads its
    grammar."""
    from sympy.parsing.latex import _parse_latex_antlr, parse_latex

    _parse_latex_antlr.version = lambda _: "4.11"
    reader: Callable[[str], Any] = parse_latex
    return reader
