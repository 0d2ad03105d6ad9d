"""The console's screens by name, with the keys that lead to them."""

from typing import Final, NamedTuple


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
    "recipes": Tab("T", "Recipes"),
    "watch": Tab("W", "Watch"),
    "compare": Tab("", "Compare"),
    "job": Tab("", "Job"),
    "output": Tab("", "Output"),
    "sample": Tab("", "Sample"),
    "samples": Tab("", "Samples"),
}
