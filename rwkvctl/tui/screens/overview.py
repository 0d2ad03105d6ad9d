"""Overview: what holds the GPUs, what runs, what waits and why, what happened."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

import msgspec
from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl import views
from rwkvctl.client import Record
from rwkvctl.protocol.messages import JobView
from rwkvctl.render import Cell, Column, Role, Table, clock
from rwkvctl.tui.base import ConsoleScreen
from rwkvctl.tui.state import ConsoleState
from rwkvctl.tui.widgets import Grid

SHOWN: Final = 100
"""Rows of a panel at most: drawing must stay cheap when thousands wait."""

ROLES: dict[str, Role] = {"failed": "bad", "held": "warn", "done": "ok"}


class Overview(ConsoleScreen):
    """The first screen."""

    NAME = "overview"
    KEY = "1"
    TITLE = "Overview"
    DEFAULT_CSS = """
    Overview #leases { max-height: 9; }
    Overview #engines { max-height: 5; }
    Overview #running { height: 2fr; min-height: 4; }
    Overview #queue { height: 1fr; min-height: 4; }
    Overview #events { height: 7; }
    Overview.-short #events { height: 4; }
    Overview.-short #leases { max-height: 5; }
    Overview.-short #engines { max-height: 3; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012 - Textual's declaration
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop_job", "Stop…"),
        Binding("D", "app.dispatch", "Dispatch…", key_display="D"),
        Binding("tab", "app.focus_next", "Panel", show=False),
    ]

    def body(self) -> Iterable[Widget]:
        yield Grid(id="leases", ruled=False)
        yield Grid(id="engines", ruled=False)
        yield Grid(id="running", focusable=True)
        yield Grid(id="queue", focusable=True)
        yield Grid(id="events")

    def draw(self, state: ConsoleState) -> None:
        stale = bool(state.problem)
        self.grid("leases").show("", views.leases(records(state.leases.values())), stale=stale)
        self.grid("engines").show("", views.engines(records(state.engines.values())), stale=stale)
        running, waiting = state.running[:SHOWN], [*state.waiting[:SHOWN], *state.ended[:SHOWN]]
        table = views.jobs(records(running), "nothing runs; D dispatches")
        self.grid("running").show(f"Running {len(state.running)}", table, ids(running), stale=stale)
        table = views.jobs(records(waiting), "nothing waits")
        self.grid("queue").show(
            f"Queue {len(state.waiting)} · ended {len(state.ended)}", table, ids(waiting), stale=stale
        )
        self.grid("events").show("Events", happened(state), stale=stale)

    def grid(self, name: str) -> Grid:
        """A panel by its name."""
        return self.query_one(f"#{name}", Grid)

    def on_grid_opened(self, message: Grid.Opened) -> None:
        self.console_app.open_job(message.key)

    def action_stop_job(self) -> None:
        """Ask whether to stop the chosen job."""
        focused = self.focused
        if isinstance(focused, Grid) and focused.chosen:
            self.console_app.ask_stop(focused.chosen)


def records(items: Iterable[msgspec.Struct]) -> list[Record]:
    """Messages as the tables of `views` take them."""
    return [msgspec.to_builtins(item) for item in items]


def ids(jobs: Sequence[JobView]) -> list[str]:
    """Their ids."""
    return [job.id for job in jobs]


def happened(state: ConsoleState) -> Table:
    """The latest events, newest first."""
    rows: list[list[str | Cell]] = [
        [
            Cell(clock(event.at), "dim"),
            Cell(event.job or event.engine or "–", "bold"),
            Cell(event.kind, ROLES.get(str(event.data.get("state", "")), "info")),
            event.text,
        ]
        for event in list(state.events)[:20]
    ]
    columns = [Column("AT"), Column("OF"), Column("EVENT"), Column("WHAT", cut="end")]
    return Table(columns, rows, "nothing happened since the console started")


SCREEN = Overview
