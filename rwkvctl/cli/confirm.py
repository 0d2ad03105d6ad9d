"""Shared by verbs that change many jobs: confirmation, and ids of jobs from a pipe."""

import re
import sys
from typing import Final

from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.text.sanitize import styled

JOB: Final = re.compile(r"j?\d{1,17}")


def confirm(context: Context, question: str, *, yes: bool) -> None:
    """Ask the operator to confirm. Raises RefusedError if they decline, or if there is no terminal and no --yes."""
    if yes:
        return
    if not (context.terminal.err_is_tty and sys.stdin.isatty()):
        detail = f"{question} There is no terminal to ask on: use --yes."
        raise RefusedError("needs-yes", detail, "Nothing was changed.", Exit.REFUSED)
    context.terminal.draw(styled(f"{question} [y/N] "))
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise RefusedError("not-wanted", "Nothing was changed.", "", Exit.REFUSED)


def named(jobs: list[str]) -> list[str]:
    """The ids that were given; for `-` those that begin the lines of standard input, so that a list of jobs can be
    piped in as it is. Raises UsageError if there are none."""
    if "-" not in jobs:
        return jobs
    read = [words[0] for line in sys.stdin if (words := line.split()) and JOB.fullmatch(words[0])]
    if not read:
        raise UsageError("no job on standard input; pipe in a list, such as `rwkvctl jobs --state failed`.")
    return [job for job in jobs if job != "-"] + read
