"""Ensure, inside the maths worker, that nothing that a model wrote is ever evaluated as Python.

sympy reads text through `parse_expr`, which compiles and evaluates it, and does so for plain numbers too: every
`Number("12")` of math-verify's LaTeX reader goes that way. math-verify itself hands sums such as `3*4+5` to it. Here
`parse_expr` is replaced: it reads one plain number and refuses the rest; sums have a reader of their own. And where
sympy generates Python itself (`lambdify` for roots of polynomials and series, the arithmetic of monomials), ordinary
functions stand instead. Behind that stands an audit hook (PEP 578), which cannot be taken out again: compiling source
text, starting programs, opening files for writing and sockets raise `EvaluationRefused`, whoever calls. Only modules
that are being imported may compile, and they leave no bytecode behind.
"""

import os
import sys
from types import FrameType
from typing import Any

from rwkv_data.graders.maths.sum_parser import arithmetic
from rwkv_data.graders.maths.worker.sympy_substitutes import Monomials, number, polynomial

_FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.kill",
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.putenv",
    "subprocess.",
    "socket.",
    "ctypes.",
    "pty.",
    "shutil.",
    "webbrowser.",
    "urllib.",
    "code.__new__",
    "pickle.find_class",
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class EvaluationRefused(Exception):  # noqa: N818  # an event in the worker, not a mistake of its caller
    """Something would have been evaluated, started or written."""


def install() -> None:
    """Close the ways from text to Python. Cannot be undone; called once, after the libraries are loaded."""
    from latex2sympy2_extended import latex2sympy2
    from math_verify import parser
    from sympy.core import evalf
    from sympy.parsing import sympy_parser
    from sympy.polys import monomials, rings, rootoftools

    for module in (sympy_parser, latex2sympy2, parser):
        module.parse_expr = number  # sympify fetches it from its module at each call
    parser.parse_expr_cached = arithmetic
    evalf.lambdify = rootoftools.lambdify = polynomial
    monomials.MonomialOps = rings.MonomialOps = Monomials
    sys.dont_write_bytecode = True  # where none is installed, an import would write it, be refused, and fail
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "compile":
        if not _importing(sys._getframe(1)):
            raise EvaluationRefused("source text is not compiled here")
    elif event == "open":
        if arguments[2] & _WRITES:
            raise EvaluationRefused("no file is written here")
    elif event.startswith(_FORBIDDEN):
        raise EvaluationRefused(f"{event} has no place here")


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
