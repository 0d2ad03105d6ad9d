"""Data: every benchmark of the catalogue, whether its rows lie ready, and how it is asked."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.replies import BenchmarksReply
from rwkvctl.protocol.requests import BenchmarksRequest
from rwkvctl.protocol.views import BenchmarkView
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.node import benchmark_columns
from rwkvctl.tui.node.benchmark_columns import BenchmarkRow
from rwkvctl.tui.scores.summary import KnownScores
from rwkvctl.tui.shell.polling_screen import PollingScreen
from rwkvctl.tui.widgets.reader import Reading
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable


class Benchmarks(PollingScreen):
    """The catalogue, and below it what is known of the benchmark under the cursor."""

    NAME = "benchmarks"
    EVERY_S = 5.0
    DEFAULT_CSS = """
    Benchmarks #benchmarks { height: 1fr; min-height: 4; }
    Benchmarks #benchmark { height: 13; }
    Benchmarks.-dense #benchmark { height: 9; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "kinds", "Prompts…"),
        Binding("f", "prepare", "Prepare…"),
        Binding("D", "dispatch", "Dispatch…", key_display="D"),
    ]

    items: tuple[BenchmarkView, ...] = ()

    def body(self) -> Iterable[Widget]:
        self.scores = KnownScores()
        yield VTable[BenchmarkRow](benchmark_columns.BENCHMARKS, benchmark_columns.name, id="benchmarks",
                          empty=LOADING)  # fmt: skip
        yield Reading(id="benchmark", wraps=True)

    async def fetch(self) -> None:
        link = self.console_app.link
        self.items = (await link.ask(BenchmarksRequest(), BenchmarksReply)).items
        await self.scores.fetch(link, self.console_app.state)

    def command(self) -> str:
        chosen = self.table.chosen
        return as_typed(["rwkvctl", "benchmarks", "show", str(chosen)]) if chosen else "rwkvctl benchmarks"

    def headline(self, state: ConsoleState) -> Pieces:
        return [(" Data › benchmarks", "title"), (f"   {benchmark_columns.tally(self.items)}", "")]

    @property
    def table(self) -> "VTable[Any]":
        return self.query_one("#benchmarks", VTable)

    def draw(self, state: ConsoleState) -> None:
        table = self.table
        table.empty = "no benchmarks" if self.known else LOADING
        rows = benchmark_columns.sets_of(self.items, self.scores.items)
        title = f"Benchmarks · {benchmark_columns.tally(self.items)}" if self.has_class("-dense") else "Benchmarks"
        table.show(title, rows, stale=bool(state.problem))
        self._show_chosen()

    def _show_chosen(self) -> None:
        table, stale = self.table, bool(self.console_app.state.problem)
        if not table.chosen:
            self.query_one(Reading).show([], stale=stale)
            return
        row: BenchmarkRow = table.listing.row(table.cursor)
        title = [(row.item.name, "title"), (f" · {row.item.title}", "")]
        self.query_one(Reading).show(benchmark_columns.about(row), title=title, stale=stale)

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Show what is known of the one under the cursor."""
        message.stop()
        self._show_chosen()

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Show its first prompts, exactly as they are sent."""
        message.stop()
        self._prompts(message.key)

    def _prompts(self, name: str, kind: str = "") -> None:
        self.console_app.commander.run("benchmarks", "show", name, *([kind] if kind else []))

    def action_kinds(self) -> None:
        """Choose the kind whose prompts are shown."""
        item = next((item for item in self.items if item.name == self.table.chosen), None)
        if item is None:
            self.console_app.say(self.table.why_no_row, "warn")
        else:
            self.run_worker(self._choose_kind(item), group="kinds")

    async def _choose_kind(self, item: BenchmarkView) -> None:
        from rwkvctl.tui.shell.dialogs import Menu  # dialogs are not part of the first frame

        words = [kind if kind in item.usual else f"{kind}  (only if named)" for kind in item.kinds]
        place = await self.console_app.push_screen_wait(Menu(f"Prompts of {item.name}", words))
        if place is not None:
            self._prompts(item.name, item.kinds[place])

    def action_dispatch(self) -> None:
        """Open the dispatch form for the chosen benchmarks."""
        if names := self.targets_in(self.table):
            self.console_app.action_dispatch("--only-datasets", *names)

    def action_prepare(self) -> None:
        """Ask whether to prepare the chosen sets."""
        chosen = set(self.targets_in(self.table))
        items = [item for item in self.items if item.name in chosen]
        if not items:
            return
        if all(item.builtin for item in items):
            self.console_app.say("Its rows come with rwkvctl; there is nothing to prepare.")
        elif self.console_app.may_write():
            self.run_worker(self._prepare([item for item in items if not item.builtin]), group="prepare")

    async def _prepare(self, items: Sequence[BenchmarkView]) -> None:
        from rwkvctl.tui.shell.dialogs import Question

        if await self.console_app.push_screen_wait(Question(benchmark_columns.question(items))):
            self.console_app.commander.run("data", "prepare", *(item.name for item in items))


SCREEN = Benchmarks
