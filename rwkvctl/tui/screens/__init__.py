"""The console's screens, one file each: each defines SCREEN, a ConsoleScreen with its file's name as NAME. A file is
read when its screen is wanted: the first picture waits for the Overview alone."""

import importlib

from rwkvctl.tui.screen import ConsoleScreen


def load(name: str) -> type[ConsoleScreen]:
    """Import the module of a screen and return its class."""
    screen: type[ConsoleScreen] = importlib.import_module(f"{__name__}.{name}").SCREEN
    return screen
