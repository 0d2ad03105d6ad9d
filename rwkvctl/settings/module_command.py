"""The command that starts a module of this installation as a program."""

import sys


def module_command(module: str, *words: str) -> tuple[str, ...]:
    """The command line of a module. `-P`: nothing is imported from the working folder, which may be another user's."""
    return sys.executable, "-P", "-m", module, *words
