"""Compare: two models, versions or runs, benchmark by benchmark, the worst first; and the rows on which they part."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Final

import msgspec
from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.cli.render import joined, short_model
from rwkvctl.cli.tables.comparison_tables import NAMED, WORDS
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.replies import CompareReply, JobReply
from rwkvctl.protocol.requests import CompareRequest, JobRequest
from rwkvctl.protocol.views import ComparisonView, ScoreView
from rwkvctl.scoreboard.matrix import worst_first
from rwkvctl.text.sanitize import safe_line
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.scores.comparison import (
    FAMILY,
    FLIPS,
    SHOWS,
    ComparedScores,
    Flip,
    facts,
    flips_of,
    flips_title,
    name_of,
)
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.shell.command_parser import words_about
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.table import VTable

MOST_FLIPS: Final = 1000
ORDER: Final = ("worse", "better", "no difference shown", "not comparable")
SHORT: Final = 18
"""Cells of a name in the path of a small screen."""

REST_S: Final = 0.1
"""The cursor rests so long on a benchmark before its flips are asked for."""


class Compare(ConsoleScreen):
    """B against A: all benchmarks that both have, and for one of them the facts and the flips."""

    NAME = "compare"
    FIRST_PANEL = "family"
    DEFAULT_CSS = """
    Compare #family { max-height: 13; }
    Compare #facts { margin-top: 1; }
    Compare #flips { height: 1fr; min-height: 4; margin-top: 1; }
    Compare.-dense #family { max-height: 6; }
    Compare.-dense #facts, Compare.-dense #flips { margin-top: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "flips", "Show lost"),
        Binding("g", "group", "Group", priority=True),
        Binding("B", "swap", "Swap", key_display="B"),
        Binding("right_parenthesis", "next(1)", "Next", key_display=")"),
        Binding("left_parenthesis", "next(-1)", "Previous", key_display="(", show=False),
    ]

    reply: CompareReply | None = None
    problem = ""
    shows = SHOWS[0]
    grouped = False

    def body(self) -> Iterable[Widget]:
        self.scores: dict[str, ScoreView] = {}
        self.detailed: dict[str, ComparisonView] = {}
        self.family = VTable[ComparisonView](FAMILY, name_of, id="family", empty="no comparison yet")
        self.facts = Lines(id="facts", grows=True)
        self.flips = VTable[Flip](FLIPS, lambda flip: str(flip.view.row), id="flips", empty="none")
        yield from (self.family, self.facts, self.flips)

    # -- where we are ----------------------------------------------------------------------------------------------

    @property
    def sides(self) -> tuple[str, str]:
        """Return A and B; empty if nothing was chosen."""
        words = [*words_about(self.about), "", ""]
        return words[0], words[1]

    @property
    def chosen(self) -> ComparisonView | None:
        """Return the benchmark under the cursor, with its flips if they are known."""
        table = self.family
        found = table.listing.row(table.cursor) if table.chosen else None
        return None if found is None else self.detailed.get(name_of(found), found)

    def arrive(self, about: str) -> None:
        """Compare the sides, unless that was done when the screen was last shown."""
        before = self.about
        super().arrive(about or before)
        if self.about and (self.about != before or self.reply is None):
            self.reply, self.problem = None, ""
            self.detailed.clear()
            self.start("compare", self.compare)

    def path(self) -> list[str]:
        a, b = self.sides
        return ["Scores", "Compare", *([f"B = {self.named(b)} against A = {self.named(a)}"] if a else [])]

    def named(self, side: str) -> str:
        """Return a model's name, shortened on a small screen."""
        return short_model(safe_line(side), SHORT) if self.has_class("-dense") else side

    def command(self) -> str:
        a, b = self.sides
        chosen = self.chosen
        about = ["--benchmark", chosen.benchmark, "--flips"] if chosen else []
        return as_typed(["rwkvctl", "compare", a, b, *about])

    # -- drawing ---------------------------------------------------------------------------------------------------

    def draw(self, state: ConsoleState) -> None:
        stale = bool(state.problem)
        items = worst_first(self.reply.items) if self.reply else []
        self.family.show(self.summary(), items, stale=stale)
        self.look()

    def summary(self) -> str:
        """Return how many benchmarks got better and worse, and how many only one side has."""
        if self.reply is None:
            a, b = self.sides
            return self.problem or (
                f"comparing {b} with {a} …"
                if a
                else "No comparison yet: in Scores (4) mark two models with space, then press c"
            )
        if self.reply.looking:
            return f"comparing: {self.reply.looking} …"
        known = self.reply.counts
        counts = joined(
            f"{known[verdict]} {WORDS.get(verdict, verdict)}"
            for verdict in [*ORDER, *known.keys() - {*ORDER}]
            if verdict in known
        )
        only = [f"only {side}: {listed(names)}" for side, names in (("A", self.reply.only_a), ("B", self.reply.only_b))
                if names]  # fmt: skip
        return " · ".join(["Worst first", counts or "no benchmark in common", *only])

    def look(self) -> None:
        """Show what is known of the benchmark under the cursor."""
        stale, view = bool(self.console_app.state.problem), self.chosen
        if view is None:
            self.facts.show([])
            self.flips.show("Flips", [])
            return
        family = sum(item.p is not None for item in self.reply.items) if self.reply else 0
        sides = ComparedScores(self.scores.get(view.job_a), self.scores.get(view.job_b))
        self.facts.show(facts(view, sides, self.app.size.width, family), stale=stale)
        is_paired = view.p is not None and not view.unpaired
        self.flips.empty = "none" if is_paired else "not known: nothing was paired row by row"
        title = flips_title(view, flips_of(view), self.shows) if is_paired else [("Flips", "title")]
        self.flips.show(title, flips_of(view, self.shows, grouped=self.grouped), stale=stale)

    # -- asking ----------------------------------------------------------------------------------------------------

    async def compare(self) -> None:
        """Compare the two sides on all benchmarks that both have: the family over which p is adjusted."""
        a, b = self.sides
        self.draw(self.console_app.state)
        try:
            self.reply = await self.console_app.link.compared(CompareRequest(a=a, b=b), self.tell)
        except RwkvctlError as error:
            self.problem = str(error)
        self.draw(self.console_app.state)
        self.find(words_about(self.about)[2:])

    def tell(self, reply: CompareReply) -> None:
        """Show what is known while the rest is still compared."""
        if self.is_attached:
            self.reply = reply
            self.draw(self.console_app.state)

    def find(self, wanted: list[str]) -> None:
        """Put the cursor on the benchmark that was asked for."""
        rows = self.family.listing.rows
        place = next((n for n, row in enumerate(rows) if [row.benchmark, row.kind][: len(wanted)] == wanted), -1)
        if wanted and place >= 0:
            self.family.move_to(place)

    async def read_details(self, view: ComparisonView) -> None:
        """Fetch both scores, and the rows on which the sides differ."""
        await asyncio.sleep(REST_S)
        for read in (self.read_flips, self.read_scores):
            try:
                await read(view)
            except RwkvctlError as error:
                self.console_app.say(str(error), "bad")
            if not self.is_attached:  # the console is being left
                return
            self.look()

    async def read_flips(self, view: ComparisonView) -> None:
        """Fetch the rows on which the sides differ; p stays adjusted over the family."""
        if view.p is not None and name_of(view) not in self.detailed:
            request = CompareRequest(a=view.job_a, b=view.job_b, flips=MOST_FLIPS)
            reply = await self.console_app.link.compared(request)
            for found in reply.items:
                self.detailed[name_of(view)] = msgspec.structs.replace(view, flips=found.flips)

    async def read_scores(self, view: ComparisonView) -> None:
        """Fetch the scores of both jobs of a comparison, unless they are known."""
        for job in sorted({view.job_a, view.job_b} - {"", *self.scores}):
            score = (await self.console_app.link.ask(JobRequest(job=job), JobReply)).item.score
            if score is not None:
                self.scores[job] = score

    # -- what the operator does ------------------------------------------------------------------------------------

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Show what is known of the benchmark under the cursor, and request its details."""
        message.stop()
        if message.table is self.family:
            self.look()
            if self.chosen is not None:
                self.start("details", partial(self.read_details, self.chosen))

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Go to the flips of a benchmark, or to both completions of a flip, B's first since B is the side in
        question."""
        message.stop()
        view = self.chosen
        if message.table is self.family:
            self.flips.focus()
        elif view is not None:
            flip = next(flip for flip in view.flips if str(flip.row) == message.key)
            self.console_app.go("sample", f"{view.job_b}:{flip.sample_b}|{view.job_a}:{flip.sample_a}")

    def action_flips(self) -> None:
        """Show all flips, those that were lost, those that were gained."""
        self.shows = SHOWS[(SHOWS.index(self.shows) + 1) % len(SHOWS)]
        self.look()

    def action_group(self) -> None:
        """Order the flips by reason, or by row again."""
        self.grouped = not self.grouped
        self.look()

    def action_swap(self) -> None:
        """Swap A and B, on the same benchmark."""
        (a, b), view = self.sides, self.chosen
        if a:
            self.console_app.go("compare", as_typed([b, a, *((view.benchmark, view.kind) if view else ())]))
        else:
            self.console_app.say("Nothing is compared yet: mark two models on Scores (4) and press c.", "warn")

    def action_next(self, by: int) -> None:
        """Move to the next (1) or the previous (-1) benchmark."""
        self.family.move_to(self.family.cursor + by)


def listed(names: tuple[str, ...]) -> str:
    """Return some names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


SCREEN = Compare
