"""Verbs that are other programs: this process becomes them, and no import crosses the socket line."""

import os
import sys
from typing import NoReturn


def become(module: str, *words: str) -> NoReturn:
    """Replace this process by `python -m MODULE WORDS`; its output, signals and exit code are that program's."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *words])  # noqa: S606 - an argv list, no shell
