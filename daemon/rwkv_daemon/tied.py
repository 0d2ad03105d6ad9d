"""`python -m rwkv_daemon.tied PARENT MODULE [ARGUMENT…]`: a module as a program that dies with the process that started
it, even by SIGKILL. For workers without a daemon: nobody would find them again."""

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


def main(parent: str, module: str) -> None:
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == int(parent):  # else it was gone before the kernel was told
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _, parent, module, *sys.argv[1:] = sys.argv
    main(parent, module)
