"""What the matrix asks the daemon for: all scores once, then what lies in view: comparisons, and the runs of a cell."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from rwkvctl.protocol.errors import RwkvctlError, UnreachableError
from rwkvctl.protocol.replies import BenchmarksReply, ModelsReply, ScoresReply
from rwkvctl.protocol.requests import BenchmarksRequest, CompareRequest, ModelsRequest, ScoresRequest
from rwkvctl.protocol.views import ComparisonView, ModelView, ScoreView
from rwkvctl.scoreboard.book import Book, Key, Score
from rwkvctl.scoreboard.matrix import Verdicts, domains_of
from rwkvctl.tui.daemon.client import Link
from rwkvctl.tui.scores.runs import ScoredRun, runs_of

PAGE: Final = 1000
RUNS: Final = 100
"""Runs of a cell that are shown, the newest."""

KEPT: Final = 200
"""Cells whose runs are kept for when the cursor comes back."""

REFUSED: Final = ComparisonView(benchmark="", kind="", verdict="not comparable", why="no benchmark in common")


class ModelComparison(NamedTuple):
    """What comparing two models showed, and the cells they had then: with others it holds no more."""

    verdicts: dict[Key, ComparisonView]
    cells: tuple[object, object]


class ScoreSource:
    """Asks, and keeps what was answered for as long as it holds. Every method may raise RwkvctlError.

    `ready`: all has been read once, so that which model is the newest is known.
    """

    def __init__(self, link: Link, book: Book) -> None:
        self.link, self.book = link, book
        self.ready = False
        self.models: Sequence[ModelView] = ()
        self.domains: dict[str, str] = {}
        self.training: frozenset[str] = frozenset()
        self._compared: dict[tuple[str, str], ModelComparison] = {}
        self._pairs: dict[tuple[str, str], ComparisonView] = {}
        self._history: dict[tuple[str, Key], tuple[Score | None, Sequence[ScoreView]]] = {}

    async def read(self) -> None:
        """Every model, every benchmark, and the newest score of each."""
        self.models = (await self.link.ask(ModelsRequest(scored=True), ModelsReply)).items
        benchmarks = (await self.link.ask(BenchmarksRequest(), BenchmarksReply)).items
        self.domains = domains_of(benchmarks)
        self.training = frozenset(one.name for one in benchmarks if one.training)
        before = 0
        while True:
            reply = await self.link.ask(ScoresRequest(brief=True, limit=PAGE, before=before), ScoresReply)
            self.book.take(view for view in reply.items if view.benchmark not in self.training)
            before = reply.next
            if not before:
                self.book.complete = self.ready = True
                return

    @property
    def verdicts(self) -> dict[tuple[str, str], Verdicts]:
        """What is known of (base, model), where it still holds."""
        return {pair: found.verdicts for pair, found in self._compared.items() if found.cells == self._cells(pair)}

    def _cells(self, pair: tuple[str, str]) -> tuple[object, object]:
        """What tells whether a model has other scores now: its cells are replaced, never changed."""
        base, model = (id(self.book.models.get(name)) for name in pair)
        return base, model

    async def compare(self, base: str, model: str) -> None:
        """Compare two models on all that both have; where that is refused, nothing is known, and is not asked again."""
        cells, items = self._cells((base, model)), tuple[ComparisonView, ...]()
        try:
            items = (await self.link.compared(CompareRequest(a=base, b=model))).items
        except UnreachableError:
            raise
        except RwkvctlError:
            items = ()
        self._compared[base, model] = ModelComparison({(item.benchmark, item.kind): item for item in items}, cells)

    def known_runs(self, model: str, key: Key) -> list[ScoredRun] | None:
        """The runs of a cell as far as they are known; None where they must be asked for."""
        newest, views = self._history.get((model, key), (None, ()))
        return None if newest is None or newest != self._cell(model, key) else runs_of(views, key[1], self._pairs)

    def _cell(self, model: str, key: Key) -> Score | None:
        return self.book.models.get(model, {}).get(key)

    async def read_runs(self, model: str, key: Key) -> None:
        """Return the runs of a cell, newest first."""
        newest = self._cell(model, key)
        request = ScoresRequest(model=model, benchmark=key[0], all_versions=True, limit=RUNS)
        reply = await self.link.ask(request, ScoresReply)
        while len(self._history) >= KEPT:
            del self._history[next(iter(self._history))]
        self._history[model, key] = newest, reply.items

    async def compare_runs(self, older: str, newer: str) -> None:
        """Compare a run with the one before it. The result for two finished runs never changes."""
        try:
            reply = await self.link.compared(CompareRequest(a=older, b=newer))
            found = next(iter(reply.items), REFUSED)
        except UnreachableError:
            raise
        except RwkvctlError as error:
            found = msgspec.structs.replace(REFUSED, why=str(error))
        self._pairs[older, newer] = found
