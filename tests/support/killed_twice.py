"""A program that is killed in the middle of its work, and run again until it is done."""

import signal
import subprocess
from collections.abc import Sequence

from waiting import LIMIT_S

KILLED_AFTER = (15, 60)
"""Lines of its output after which each run but the last is killed."""


def last_lines(command: Sequence[str]) -> list[str]:
    """Kill the program (SIGKILL) once for each number in KILLED_AFTER; return the lines of the run that may end."""
    for lines in KILLED_AFTER:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
    last = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True)
    return last.stdout.splitlines()
