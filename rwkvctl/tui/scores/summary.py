"""The newest scores as a few lines, for screens that are about something else. Pure, but for asking."""

from collections.abc import Sequence
from typing import Final

import msgspec

from rwkvctl.cli.tables.core_tables import value_with_interval
from rwkvctl.protocol.replies import ScoresReply
from rwkvctl.protocol.requests import ScoresRequest
from rwkvctl.protocol.views import MetricView, ScoreView
from rwkvctl.text.sanitize import fit
from rwkvctl.tui.daemon.client import Link
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_paint import aligned

NEWEST: Final = 1000
NAME: Final = 24
"""Cells that a name has, so that scores stand below one another."""


class KnownScores:
    """The newest scores, asked for again when there is another one."""

    def __init__(self) -> None:
        self.items: tuple[ScoreView, ...] = ()
        self._of = (-1, -1)

    async def fetch(self, link: Link, state: ConsoleState) -> None:
        """Ask if there may be new ones. May raise RwkvctlError."""
        told = next((event.seq for event in state.events if event.kind == "job.score"), 0)
        now = (state.counts.get("done", 0), told)  # a job that is graded again is done once more
        if now != self._of:
            self.items = (await link.ask(ScoresRequest(limit=NEWEST, brief=True), ScoresReply)).items
            self._of = now


def value(score: ScoreView) -> MetricView | None:
    """Return the headline metric; None if the score lacks it."""
    return score.metrics.get(score.primary)


def text(score: ScoreView) -> str:
    """Return the headline metric with its interval, `74.9 ±2.3`; `–` if the score lacks it."""
    metric = value(score)
    return value_with_interval(msgspec.to_builtins(metric)) if metric else "–"


def lines(scores: Sequence[ScoreView], most: int, *, of_model: bool) -> list[Pieces]:
    """The newest of these scores, each on a line: of a model by benchmark, else by model."""
    if not scores:
        return [[(" never run", "dim")]]
    shown: list[Pieces] = [
        [
            (f" {score.finished[5:10]:<6}", "dim"),
            (aligned(fit(score.benchmark if of_model else score.model, NAME, "middle"), NAME, right=False), ""),
            (f" {text(score):>11}", "bold"),
            (f"  {score.job:<6} n {score.n:<5,} {score.kind}", "dim"),
        ]
        for score in scores[:most]
    ]
    left = len(scores) - most
    return [*shown, [(f" and {left:,} more on the Scores screen (4)", "dim")]] if left > 0 else shown
