"""The dispatch form: models, benchmarks, limit; then the planner's preview; then yes."""

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from rwkvctl.client import request_id
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.messages import DispatchReply, DispatchRequest, PlanReply, PlanRequest, PlanRow, Selection
from rwkvctl.render import Cell, count
from rwkvctl.tui.columns import Column
from rwkvctl.tui.lines import Lines
from rwkvctl.tui.strips import Pieces
from rwkvctl.tui.table import VTable
from rwkvctl.views import ACTIONS

if TYPE_CHECKING:
    from rwkvctl.tui.app import Console

FIELDS = {
    "models": "names or patterns; empty: all; builtin: the built-in checkpoint",
    "benchmarks": "names; empty: all whose rows are prepared",
    "limit": "first N rows of each; empty: all rows",
}
"""Fields of the form and what may be typed there."""

COLUMNS: list[Column[tuple[int, PlanRow]]] = [
    Column("#", lambda row: str(row[0]), 4, value=lambda row: row[0], right=True),
    Column("ACTION", lambda row: Cell(*ACTIONS[row[1].action], row[1].action), 8),
    Column("MODEL", lambda row: row[1].model, 18, least=12, cut="middle"),
    Column("BENCHMARK", lambda row: row[1].benchmark, 16, least=8, cut="middle"),
    Column("KIND", lambda row: row[1].kind, 8, rank=1),
    Column("SAMPLES", lambda row: count(row[1].samples), 7, value=lambda row: row[1].samples, right=True),
    Column("REASON", lambda row: row[1].reason, 16),
    Column("DETAIL", lambda row: row[1].detail, 12, least=8, grow=1, rank=2),
]


class DispatchForm(ModalScreen[str]):
    """Closes with a sentence that says what was queued."""

    DEFAULT_CSS = """
    DispatchForm { align: center middle; background: $background 60%; }
    DispatchForm > Vertical {
        width: 100%; max-width: 110; height: 90%; border: round $primary; padding: 0 1; background: $background;
    }
    DispatchForm Input, DispatchForm Input:focus { height: 1; border: none; padding: 0 1; background: $panel; }
    DispatchForm #plan { height: 1fr; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", "Cancel"),
        Binding("y", "dispatch", "Dispatch"),
        Binding("e", "edit", "Edit"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.planned: tuple[Selection, PlanReply] | None = None

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Lines(id="head")
            for name, hint in FIELDS.items():
                yield Lines(id=f"label-{name}")
                field = Input(placeholder=hint, id=name, type="integer" if name == "limit" else "text")
                field.cursor_blink = False
                yield field
            yield VTable(COLUMNS, lambda row: str(row[0]), id="plan", empty="enter asks the planner what would happen")
            yield Lines(id="said")

    def on_mount(self) -> None:
        """An empty form."""
        self.show("head", [("New dispatch", "title"), ("   every field is a flag of `rwkvctl dispatch`", "dim")])
        for name in FIELDS:
            self.show(f"label-{name}", [(name, "bold")])
        self.show("said", [("enter", "accent"), (" preview   ", "dim"), ("esc", "accent"), (" cancel", "dim")])
        self.query_one("#plan", VTable).show("Preview", [])
        self.query_one("#models", Input).focus()

    def show(self, name: str, pieces: Pieces) -> None:
        """Fill one of the form's lines."""
        self.query_one(f"#{name}", Lines).show([pieces])

    async def on_input_submitted(self) -> None:
        """Ask the planner and show what it says."""
        selection = self.selection()
        self.show("said", [("asking the planner", "dim")])
        try:
            plan = await self.console_app.link.ask(PlanRequest(selection=selection), PlanReply)
        except RwkvctlError as error:
            self.show("said", [(str(error), "bad")])
            return
        self.planned = (selection, plan)
        table: VTable[tuple[int, PlanRow]] = self.query_one("#plan", VTable)
        table.empty = "nothing matches: no model, or no benchmark, passes the filters"
        table.show(f"Preview · plan {plan.hash[:12]}", list(enumerate(plan.rows, 1)))
        table.focus()
        fresh = sum(row.action in {"run", "resume"} for row in plan.rows)
        self.show("said", [("y", "accent"), (f" dispatch these {fresh}   ", "ok"), ("e", "accent"), (" edit   ", "dim"),
                           ("esc", "accent"), (" cancel", "dim")])  # fmt: skip

    def selection(self) -> Selection:
        """What the fields say."""
        limit = self.query_one("#limit", Input).value
        return Selection(
            models=words(self.query_one("#models", Input).value),
            only_datasets=words(self.query_one("#benchmarks", Input).value),
            limit=int(limit) if limit.isdecimal() and int(limit) else None,
        )

    @property
    def console_app(self) -> "Console":
        """The app, by its own type."""
        return self.app  # type: ignore[return-value]

    async def action_dispatch(self) -> None:
        """Carry out the plan that was shown, and no other."""
        if self.planned is None:
            return
        selection, plan = self.planned
        request = DispatchRequest(selection=selection, plan_hash=plan.hash, request_id=request_id())
        try:
            reply = await self.console_app.link.ask(request, DispatchReply)
        except RwkvctlError as error:
            self.show("said", [(str(error), "bad")])
            return
        self.dismiss(f"session {reply.session}: {len(reply.jobs)} jobs queued")

    def action_edit(self) -> None:
        """Go back to the fields."""
        self.query_one("#models", Input).focus()

    def action_leave(self) -> None:
        """Close without doing anything."""
        self.dismiss("")


def words(text: str) -> tuple[str, ...]:
    """Words apart by blanks or commas."""
    return tuple(text.replace(",", " ").split())
