"""`python -m rwkv_daemon.workers.tied_process PARENT MODULE [ARGUMENT…]`: runs a module as a program that ends with the
process that started it, even by SIGKILL. For processes without a shim, which nobody would find again: the daemon's own
helpers, and workers without a daemon."""

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

from rwkvctl.settings.module_command import module_command

DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


def command(module: str) -> tuple[str, ...]:
    """Return the command line of a module that is to end with this process. The kernel means the thread that starts
    it."""
    return module_command("rwkv_daemon.workers.tied_process", str(os.getpid()), module)


def main(parent: str, module: str) -> None:
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == int(parent):  # else the parent ended before prctl took effect
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _, parent, module, *sys.argv[1:] = sys.argv
    main(parent, module)
