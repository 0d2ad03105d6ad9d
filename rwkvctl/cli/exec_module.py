"""Verbs that are other programs: this process is replaced by them, so the CLI imports nothing of the daemon."""

import contextlib
import os
import pwd
import sys
from pathlib import Path
from typing import NoReturn

from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.settings.module_command import module_command


def become(module: str, *words: str) -> NoReturn:
    """Replace this process by a module's program; its output, signals and exit code are that program's."""
    sys.stdout.flush()
    sys.stderr.flush()
    command = module_command(module, *words)
    os.execv(command[0], command)  # noqa: S606 - an argv list, no shell


def as_owner(folder: Path, words: str) -> None:
    """Raises RefusedError where what this process makes in a folder could not be used: it belongs to another user, as
    the system's service has it, and we may not write there, or would leave files of root's."""
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            owner = place.stat().st_uid
            break
    else:
        return
    if owner == os.geteuid() or (os.geteuid() != 0 and os.access(place, os.W_OK)):
        return
    with contextlib.suppress(KeyError):
        name = pwd.getpwuid(owner).pw_name
        hint = f"Run `sudo -u {name} rwkvctl {words}`; that user must be able to read the files you name."
        raise RefusedError("not-owner", f"{folder} belongs to the user {name}.", hint, Exit.REFUSED)
