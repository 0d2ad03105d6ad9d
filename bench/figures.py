"""What every bench says first, a row of its table, and how long it waits for the daemon it measures."""

import datetime as dt
import os
import platform
import subprocess
import time

from rwkvctl import __version__
from rwkvctl.cli.client import Client
from rwkvctl.protocol.errors import RwkvctlError


def header(*packages: str) -> None:
    """Versions, machine, load and date, without which a figure says nothing."""
    stamp = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    versions = ", ".join((f"rwkvctl {__version__}", *packages, f"Python {platform.python_version()}"))
    print(f"{versions}, {platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {stamp}")


def line(what: str, value: float, unit: str, bar: float | None, *, at_least: bool = False) -> None:
    """A figure and its bar, which is to be kept under, or with `at_least` to be reached."""
    met = bar is None or (value >= bar if at_least else value <= bar)
    verdict = "" if bar is None else f"   bar {bar:,.6g} {unit}: {'met' if met else 'MISSED'}"
    print(f"{what:<58}{value:12,.2f} {unit:<8}{verdict}", flush=True)


def until_it_answers(daemon: "subprocess.Popen[bytes]", api: Client) -> None:
    """Wait for a daemon. Raises SystemExit if it ends instead."""
    while True:
        try:
            api.get("/v1/info")
        except (OSError, RwkvctlError):
            if daemon.poll() is not None:
                raise SystemExit(f"the daemon ended with {daemon.returncode}; `rwkvctl daemon` says why") from None
            time.sleep(0.002)
        else:
            return
