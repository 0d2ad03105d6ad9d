"""The dispatch form: models, benchmarks, limit; then the planner's preview; then yes."""

from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from rwkvctl import views
from rwkvctl.client import request_id
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.messages import DispatchReply, DispatchRequest, PlanReply, PlanRequest, Selection
from rwkvctl.render import Table
from rwkvctl.tui.widgets import Grid, Lines, Pieces

if TYPE_CHECKING:
    from rwkvctl.tui.app import Console


class DispatchForm(ModalScreen[str]):
    """Closes with a sentence that says what was queued."""

    DEFAULT_CSS = """
    DispatchForm { align: center middle; }
    DispatchForm > Vertical {
        width: 100%; max-width: 110; height: 90%; border: round #56b4e9; padding: 0 1; background: #0b0f14;
    }
    DispatchForm Input { height: 1; border: none; padding: 0 1; background: #16202b; }
    DispatchForm Lines { height: 1; }
    DispatchForm #plan { height: 1fr; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
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
            yield Grid(id="plan", focusable=True)
            yield Lines(id="said")

    def on_mount(self) -> None:
        self.show("head", [("New dispatch", "title"), ("   every field is a flag of `rwkvctl dispatch`", "dim")])
        for name in FIELDS:
            self.show(f"label-{name}", [(name, "bold")])
        self.say([("enter", "bold"), (" preview   ", "dim"), ("esc", "bold"), (" cancel", "dim")])
        self.query_one("#plan", Grid).show("Preview", Table([], [], "enter asks the planner what would happen"))
        self.query_one("#models", Input).focus()

    def show(self, name: str, pieces: Pieces) -> None:
        """Fill one of the form's lines."""
        self.query_one(f"#{name}", Lines).show([pieces])

    def say(self, pieces: Pieces) -> None:
        """Fill the last line."""
        self.show("said", pieces)

    async def on_input_submitted(self) -> None:
        """Ask the planner and show what it says."""
        selection = self.selection()
        self.say([("asking the planner", "dim")])
        try:
            plan = await self.console_app.link.ask(PlanRequest(selection=selection), PlanReply)
        except RwkvctlError as error:
            self.say([(str(error), "bad")])
            return
        self.planned = (selection, plan)
        grid = self.query_one("#plan", Grid)
        rows = [msgspec.to_builtins(row) for row in plan.rows]
        grid.show(f"Preview · plan {plan.hash[:12]}", views.plan(rows), [str(place) for place in range(len(rows))])
        grid.focus()
        fresh = sum(row.action in {"run", "resume"} for row in plan.rows)
        self.say([("y", "bold"), (f" dispatch these {fresh}   ", "ok"), ("e", "bold"), (" edit   ", "dim"),
                  ("esc", "bold"), (" cancel", "dim")])  # fmt: skip

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
            self.say([(str(error), "bad")])
            return
        self.dismiss(f"session {reply.session}: {len(reply.jobs)} jobs queued")

    def action_edit(self) -> None:
        """Go back to the fields."""
        self.query_one("#models", Input).focus()

    def action_leave(self) -> None:
        """Close without doing anything."""
        self.dismiss("")


FIELDS = {
    "models": "names or patterns; empty: all; builtin: the built-in checkpoint",
    "benchmarks": "names; empty: all whose rows are prepared",
    "limit": "first N rows of each; empty: all rows",
}
"""Fields of the form and what may be typed there."""


def words(text: str) -> tuple[str, ...]:
    """Words apart by blanks or commas."""
    return tuple(text.replace(",", " ").split())
