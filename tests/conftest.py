"""Fixtures every test room shares, and the one summary line that names what was skipped for want of something."""

import contextlib
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

if not Path("/dev/nvidia0").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported: kernels then run on the CPU
# whoever starts us in the background of a shell ignores it for us, and so for every program that a test interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
with contextlib.suppress(ImportError):  # a machine with a GPU has not all that development needs
    from hypothesis import settings

    settings.register_profile("steady", derandomize=True, deadline=None)
    settings.register_profile("wide", max_examples=2000, deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
ROOT = Path(__file__).resolve().parent.parent
MISSING: Counter[str] = Counter()


@pytest.fixture(scope="session")
def real_rows() -> Path:
    """The folder of real benchmark rows, or a skip that says where it was looked for."""
    folder = Path(os.environ.get("RWKVCTL_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"needs real rows: no folder {folder} (set RWKVCTL_TEST_DATA)")
    return folder


def need_program(name: str) -> str:
    """The path of a program, or a skip that names it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}: not installed")
    return found


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith("needs "):
            MISSING[reason.removeprefix("needs ").split(":")[0]] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if MISSING:
        wants = ", ".join(f"{name} ({count})" for name, count in sorted(MISSING.items()))
        terminalreporter.write_line(f"skipped for want of: {wants}")
