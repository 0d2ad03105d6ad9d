"""Options with which the console was started."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rwkvctl.tui.widgets.strips import DEFAULT
from rwkvctl.tui.widgets.theme import ConsoleTheme, pick


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the console was started: the terminal's environment, the flags that say which daemon, and what it may."""

    environ: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, object] = field(default_factory=dict)
    read_only: bool = False
    theme: str = "auto"
    ascii: bool = False
    parent: int = 0
    """The process without which it ends too: the one that serves it to a browser."""

    files: bool = True
    """Whether it may write files for the operator: not for somebody in a browser who may change nothing."""

    @property
    def look(self) -> ConsoleTheme:
        """Return the theme for this terminal; DEFAULT if the environment is empty."""
        return pick(self.environ, self.theme, plain=self.ascii) if self.environ else DEFAULT

    @property
    def differ(self) -> bool:
        """Whether only what differs is sent: RWKVCTL_TUI_DIFF=0 is for terminals, and Textuals, that disagree."""
        return self.environ.get("RWKVCTL_TUI_DIFF", "1") != "0"
