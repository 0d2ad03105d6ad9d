"""The console's screens, one file each, in the order of their keys: each file defines SCREEN, a ConsoleScreen with its
file's name as NAME. A file is read when its screen is wanted: the first picture waits for the Overview alone."""

import importlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rwkvctl.tui.screen import ConsoleScreen


class Tab(NamedTuple):
    """What leads to a screen: its key (none: one comes to it from others) and its title."""

    key: str
    title: str


TABS: Final = {
    "overview": Tab("1", "Overview"),
    "queue": Tab("2", "Queue"),
    "jobs": Tab("3", "Jobs"),
    "scores": Tab("4", "Scores"),
    "logs": Tab("5", "Logs"),
    "procs": Tab("6", "Procs"),
    "benchmarks": Tab("7", "Data"),
    "weights": Tab("8", "Weights"),
    "judge": Tab("9", "Judge"),
    "help": Tab("0", "Help"),
    "daemon": Tab(",", "Daemon"),
    "events": Tab("E", "Events"),
    "compare": Tab("", "Compare"),
    "job": Tab("", "Job"),
    "output": Tab("", "Output"),
    "sample": Tab("", "Sample"),
    "samples": Tab("", "Samples"),
}


def load(name: str) -> "type[ConsoleScreen]":
    """The screen of a name."""
    screen: type[ConsoleScreen] = importlib.import_module(f"{__name__}.{name}").SCREEN
    return screen
