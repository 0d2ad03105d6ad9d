"""The points at which a test may kill the process while files get their names: see `rwkvctl.settings.crash_marker`."""

from typing import Final

from rwkvctl.settings.crash_marker import kill_at

POINTS: Final = (
    "whole-before-writing",
    "whole-before-flush",
    "whole-before-commit",
    "whole-after-commit",
    "whole-after-moving-away",
    "whole-after-name-1",
    "whole-after-name-2",
    "whole-after-name-3",
    "whole-after-clearing",
)


def crash_point(name: str) -> None:
    """Kill this process if the test asked for it."""
    kill_at(name, POINTS)
