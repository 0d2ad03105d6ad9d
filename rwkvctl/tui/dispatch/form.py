"""The dispatch form: a field for each filter, the planner's answer beneath as it is typed, then yes."""

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal, Vertical
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input

from rwkvctl.cli.render import Cell
from rwkvctl.cli.tables.core_tables import ACTIONS, start
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.views import PlanRow
from rwkvctl.text.quantities import count, duration
from rwkvctl.tui.console_app import ConsoleApp, app_of
from rwkvctl.tui.dispatch import flags, planner
from rwkvctl.tui.dispatch.flags import Words
from rwkvctl.tui.dispatch.plan_rows import FRESH, estimated, paid, told
from rwkvctl.tui.dispatch.planner import PlannedDispatch
from rwkvctl.tui.shell.screen_workers import ScreenWorkers
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import VTable
from rwkvctl.tui.widgets.table_columns import Column
from rwkvctl.tui.widgets.timers import once

QUIET_S: Final = 0.3
"""So long nothing is typed before the planner is asked."""

Row = tuple[int, PlanRow]

COLUMNS: Final[list[Column[Row]]] = [
    Column("#", lambda row: str(row[0]), 4, value=lambda row: row[0], right=True),
    Column("ACTION", lambda row: Cell(*ACTIONS[row[1].action], row[1].action), 8),
    Column("MODEL", lambda row: row[1].model, 18, least=12, cut="model"),
    Column("BENCHMARK", lambda row: row[1].benchmark, 16, least=8, cut="middle"),
    Column("KIND", lambda row: row[1].kind, 8, rank=1),
    Column("SAMPLES", lambda row: count(row[1].samples), 7, value=lambda row: row[1].samples, right=True),
    Column("EST", lambda row: duration(row[1].est_s), 6, value=lambda row: row[1].est_s, right=True, rank=3),
    Column("START", lambda row: start(row[1].starts_s), 9, value=lambda row: row[1].starts_s, right=True, rank=4),
    Column("REASON", lambda row: row[1].reason, 16, least=12),
    Column("DETAIL", lambda row: row[1].detail, 12, least=8, grow=1, rank=2),
]  # fmt: skip


class DispatchForm(ScreenWorkers, ModalScreen[Words | None]):
    """The form closes with its filters, to be shown as the queue's plan, or with None if it was cancelled or has
    dispatched."""

    DEFAULT_CSS = """
    DispatchForm { align: center middle; background: $background 60%; }
    DispatchForm > Vertical {
        width: 100%; max-width: 124; height: 100%; max-height: 46; border: round $primary; padding: 0 1;
        background: $background;
    }
    DispatchForm Grid { grid-size: 2; grid-gutter: 0 2; grid-rows: 1; height: auto; }
    DispatchForm Horizontal { height: 1; }
    DispatchForm Horizontal Lines { width: 11; }
    DispatchForm Input, DispatchForm Input:focus {
        width: 1fr; height: 1; border: none; padding: 0; background: $panel;
    }
    DispatchForm #plan { height: 1fr; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", "Cancel"),
        Binding("y", "dispatch", "Dispatch"),
        Binding("e", "edit", "Edit"),
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Previous field", show=False),
    ]

    def __init__(self, words: Words = ()) -> None:
        super().__init__()
        self.planned: PlannedDispatch | None = None
        self._given = flags.values_of(words)
        self._timer: Timer | None = None

    @property
    def console_app(self) -> ConsoleApp:
        return app_of(self)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Lines(id="head")
            with Grid():
                for option in flags.fields():
                    with Horizontal():
                        yield Lines(id=f"label-{option.name}")
                        hint = flags.TITLES[option.name][1]
                        field = Input(self._given[option.name], placeholder=hint, id=option.name)
                        field.cursor_blink = False
                        yield field
            yield VTable(COLUMNS, lambda row: str(row[0]), id="plan", empty="loading…")
            yield Lines(id="paid", grows=True)
            yield Lines(id="same")
            yield Lines(id="said")

    def on_mount(self) -> None:
        """Fill the fields with the given filters, and ask the planner."""
        self.show("head", [("New dispatch", "title"), ("   every field is a flag of `rwkvctl dispatch`", "dim")])
        for name, (title, _) in flags.TITLES.items():
            self.show(f"label-{name}", [(title, "bold")])
        self.query_one("#plan", VTable).show("Preview", [])
        self.query_one("#models", Input).focus()
        self.ask()

    def show(self, name: str, pieces: Pieces) -> None:
        """Set the text of the line with the id `name`."""
        self.query_one(f"#{name}", Lines).show([pieces])

    def hint(self) -> None:
        """Show the keys, and how many jobs `y` would queue."""
        keys: list[tuple[str, str]] = [
            (" tab", "accent"),
            (" field   ", "dim"),
            ("enter", "accent"),
            (" preview   ", "dim"),
        ]
        if self.query_one("#plan", VTable).has_focus and self.planned:
            keys = [(" y", "accent"), (f" dispatch these {self.planned.fresh:,}   ", "ok"), ("e", "accent"),
                    (" edit   ", "dim"), ("enter", "accent"), (" show in the queue   ", "dim")]  # fmt: skip
        self.show("said", [*keys, ("esc", "accent"), (" cancel", "dim")])

    def words(self) -> Words:
        """Return the filters in the fields as words. Raises ValueError for unclosed quotes."""
        return flags.words_of({name: self.query_one(f"#{name}", Input).value for name in flags.TITLES})

    def on_input_changed(self) -> None:
        """Ask the planner again after a short pause in typing."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = once(self, QUIET_S, self.ask)

    def on_input_submitted(self) -> None:
        """Move the focus to the preview, with the plan for the current fields."""
        self.ask(then_look=True)

    def ask(self, *, then_look: bool = False) -> None:
        """Ask the planner; the answer to an earlier question is dropped."""
        if self._timer is not None:
            self._timer.stop()
        self.run_worker(self._ask(then_look=then_look), group="plan", exclusive=True)

    async def _ask(self, *, then_look: bool) -> None:
        try:
            words = self.words()
            self.show("same", [(" " + flags.line("dispatch", words), "info")])
            if self.planned is None or self.planned.words != words:
                self.planned = None
                self.planned = await planner.plan(self.console_app, words)
        except (RwkvctlError, ValueError) as error:
            table = self.query_one("#plan", VTable)
            table.empty = ""
            table.show("Preview", [])
            self.show("said", [(f" {error}", "bad")])
            return
        self._show_plan(self.planned)
        if then_look:
            self.query_one("#plan", VTable).focus()
        self.hint()

    def _show_plan(self, planned: PlannedDispatch) -> None:
        reply, table = planned.reply, self.query_one("#plan", VTable)
        rows = sorted(reply.rows, key=lambda row: row.action not in FRESH)
        table.empty = "no match: no model or no benchmark matches the filters"
        title = " · ".join(filter(None, [told(reply), estimated(reply), f"{reply.computed_ms:.0f} ms"]))
        table.show(f"Preview · {title}", list(enumerate(rows, 1)))
        self.query_one("#paid", Lines).show([[(" ", ""), *pieces] for pieces in paid(reply)])

    def on_descendant_focus(self) -> None:
        """Update the key hints: they depend on which field has the focus."""
        self.hint()

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Show the plan on the queue's screen."""
        message.stop()
        if self.planned is not None:
            self.dismiss(self.planned.words)

    async def action_dispatch(self) -> None:
        """Dispatch exactly the plan that is shown."""
        if self.planned is None:
            return
        if not self.console_app.may_write():
            self.show("said", [(" nothing was dispatched: this console is read-only, or no daemon answers", "warn")])
            return
        try:
            said = await planner.dispatch(self.console_app, self.planned)
        except RwkvctlError as error:
            self.show("said", [(f" {error}", "bad")])
            return
        self.dismiss(None)
        self.console_app.say(said, "ok", for_s=15.0)

    def action_edit(self) -> None:
        """Move the focus to the field of models."""
        self.query_one("#models", Input).focus()

    def action_leave(self) -> None:
        """Close the form without dispatching anything."""
        self.dismiss(None)
