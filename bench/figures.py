"""The header of every benchmark script, a row of its table, and the wait for the measured daemon."""

import datetime as dt
import os
import platform
import subprocess
import time

from rwkvctl import __version__
from rwkvctl.cli.client import Client
from rwkvctl.protocol.errors import RwkvctlError


def header(*packages: str) -> None:
    """Print versions, machine, load and date."""
    stamp = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    versions = ", ".join((f"rwkvctl {__version__}", *packages, f"Python {platform.python_version()}"))
    print(f"{versions}, {platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {stamp}")


def line(what: str, value: float, unit: str, bar: float | None, *, at_least: bool = False) -> None:
    """Print a figure and its bar, which is an upper limit, or with `at_least` a lower one."""
    met = bar is None or (value >= bar if at_least else value <= bar)
    verdict = "" if bar is None else f"   bar {bar:,.6g} {unit}: {'met' if met else 'MISSED'}"
    print(f"{what:<58}{value:12,.2f} {unit:<8}{verdict}", flush=True)


def until_it_answers(daemon: "subprocess.Popen[bytes]", api: Client) -> None:
    """Wait until a daemon answers. Raises SystemExit if it ends instead."""
    while True:
        try:
            api.get("/v1/info")
        except (OSError, RwkvctlError):
            if daemon.poll() is not None:
                raise SystemExit(f"the daemon ended with {daemon.returncode}; `rwkvctl daemon` says why") from None
            time.sleep(0.002)
        else:
            return
