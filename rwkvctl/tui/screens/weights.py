"""Weights: the checkpoints of this node, where they fit, which are loaded, and their scores."""

import asyncio
import json
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.cli.parser import UsageError
from rwkvctl.protocol.replies import ModelsReply
from rwkvctl.protocol.requests import ModelsRequest
from rwkvctl.protocol.views import ModelView
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.node import weight_columns
from rwkvctl.tui.node.weight_columns import CheckpointRow
from rwkvctl.tui.scores.summary import KnownScores
from rwkvctl.tui.shell import verb_process
from rwkvctl.tui.shell.command_parser import Run, understand
from rwkvctl.tui.shell.polling_screen import PollingScreen
from rwkvctl.tui.widgets.reader import Reading
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable

SETTLE_S: Final = 0.3
"""For so long the cursor must rest on a checkpoint before its file is looked into."""


class Weights(PollingScreen):
    """Checkpoints, and below them what is known of the one under the cursor."""

    NAME = "weights"
    EVERY_S = 5.0
    DEFAULT_CSS = """
    Weights #weights { height: 1fr; min-height: 4; }
    Weights #checkpoint { height: 14; }
    Weights.-dense #checkpoint { height: 10; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("D", "dispatch", "Dispatch…", key_display="D"),
        Binding("v", "verify", "Verify"),
        Binding("f", "download", "Download…"),
    ]

    items: tuple[ModelView, ...] = ()

    def body(self) -> Iterable[Widget]:
        self.scores = KnownScores()
        self.shown: dict[tuple[str, int], dict[str, Any]] = {}
        yield VTable[CheckpointRow](weight_columns.WEIGHTS, weight_columns.path, id="weights", empty=LOADING)
        yield Reading(id="checkpoint", wraps=True)

    async def fetch(self) -> None:
        link = self.console_app.link
        self.items = (await link.ask(ModelsRequest(), ModelsReply)).items
        await self.scores.fetch(link, self.console_app.state)

    def command(self) -> str:
        row = self.row
        return as_typed(["rwkvctl", "weights", "show", self.word(row.item)]) if row else "rwkvctl models"

    def word(self, item: ModelView) -> str:
        """Return the word by which commands name a checkpoint: its name, or its path if the name is not unique."""
        return item.name if sum(other.name == item.name for other in self.items) == 1 else item.path

    def headline(self, state: ConsoleState) -> Pieces:
        rows = weight_columns.rows_of(self.items, (), state)
        return [(" Weights", "title"), (f"   {weight_columns.tally(rows)}", "")]

    @property
    def table(self) -> "VTable[Any]":
        return self.query_one("#weights", VTable)

    @property
    def row(self) -> CheckpointRow | None:
        """Return the row of the checkpoint under the cursor; None if there is none."""
        table = self.table
        return table.listing.row(table.cursor) if table.chosen else None

    def draw(self, state: ConsoleState) -> None:
        table = self.table
        table.empty = "no checkpoints; press f to download one" if self.known else LOADING
        rows = weight_columns.rows_of(self.items, self.scores.items, state)
        title = weight_columns.tally(rows) if self.has_class("-dense") else "Checkpoints"
        table.show(title, rows, stale=bool(state.problem))
        self._show_chosen()

    def _show_chosen(self) -> None:
        row, panel, stale = self.row, self.query_one(Reading), bool(self.console_app.state.problem)
        if row is None:
            panel.show([], stale=stale)
        else:
            lines = weight_columns.about(row, self.shown.get(identity(row.item), {}))
            panel.show(lines, title=[(row.item.name, "title")], stale=stale)

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Show what is known of the one under the cursor, and look into its file."""
        message.stop()
        self._show_chosen()
        row = self.row
        if row is not None and identity(row.item) not in self.shown and self.console_app.link.remote is None:
            look: Any = partial(self._look_into, row.item)  # not begun before it runs: the cursor may move on at once
            self.run_worker(look, group="look", exclusive=True)

    async def _look_into(self, item: ModelView) -> None:
        """Run `weights show` in a process of its own, so that this process never opens an untrusted file."""
        await asyncio.sleep(SETTLE_S)
        said: list[str] = []
        try:
            run = understand(as_typed(["weights", "show", "--json", item.path]), set())
        except (ValueError, UsageError):
            run = None  # no file has such a name
        if isinstance(run, Run):
            options = self.console_app.options
            environ = verb_process.environment(options.environ, 80, 24, colour=False)
            await verb_process.follow(verb_process.command(run, options.flags), environ, said.append)
        self.shown[identity(item)] = read("".join(said))
        self._show_chosen()

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Show everything about its tensors, as the command does."""
        message.stop()
        self._run("show")

    def action_verify(self) -> None:
        """Read the checkpoint whole and compare its hash."""
        self._run("verify")

    def _run(self, verb: str) -> None:
        if self.row is None:
            self.console_app.say(self.table.why_no_row, "warn")
        else:
            self.console_app.commander.run("weights", verb, self.word(self.row.item))

    def action_download(self) -> None:
        """Begin the command that fetches checkpoints; tab completes, `--list` shows what there is."""
        if self.console_app.may_write():
            self.console_app.action_command("weights download --match ")

    def action_dispatch(self) -> None:
        """Open the dispatch form for the chosen models."""
        chosen = set(self.targets_in(self.table))
        names = [item.name for item in self.items if item.path in chosen]
        if names:
            self.console_app.action_dispatch("--models", *names)


def identity(item: ModelView) -> tuple[str, int]:
    """Return the path and size of a checkpoint, which identify its file; not the hash, which is computed later."""
    return item.path, item.size_bytes


def read(text: str) -> dict[str, Any]:
    """Return the JSON object in a command's output: the facts, or the `detail` of why there are none."""
    for line in reversed(text.split("\n")):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            return found if isinstance(found, dict) else {}
    return {"detail": text.strip()}


SCREEN = Weights
