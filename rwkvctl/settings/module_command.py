"""The command line that starts one of our modules as a program."""

import sys


def module_command(module: str, *words: str) -> tuple[str, ...]:
    """Return the command line. `-P`: nothing is imported from the working folder, which may be another user's."""
    return sys.executable, "-P", "-m", module, *words
