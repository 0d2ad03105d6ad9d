"""Calls of systemctl."""

import re
import shutil
import subprocess
import sys
from typing import Final

ANSWER_S: Final = 90.0
"""Longer than TimeoutStopSec= of the unit."""


def command(*, user: bool) -> str:
    """Return the systemctl command for the system's or the user's units."""
    return "systemctl --user" if user else "systemctl"


def spoken(*words: str, user: bool = False) -> str:
    """Return the output of systemctl; empty if it is absent, times out, or fails."""
    if shutil.which("systemctl") is None:
        return ""
    argv = [*command(user=user).split(), *words]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout if done.returncode == 0 else ""


def version() -> int:
    """That of this machine's systemd; higher than all where it has none, or does not say."""
    found = re.match(r"systemd (\d+)", spoken("--version"))
    return int(found[1]) if found else sys.maxsize
