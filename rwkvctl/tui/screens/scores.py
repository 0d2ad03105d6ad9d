"""Scores: the matrix of models x benchmarks, each model's losses against its base, and the runs behind a cell."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.errors import RwkvctlError, UnreachableError
from rwkvctl.scoreboard.book import Key
from rwkvctl.scoreboard.matrix import (
    Choice,
    MatrixRow,
    groups,
    keys_of,
    metrics_of,
    pair_of,
    rows_of,
    running_of,
    shared,
)
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.dispatch import rerun
from rwkvctl.tui.samples.filter import SampleFilter
from rwkvctl.tui.samples.summary import about_of
from rwkvctl.tui.scores import curves, runs, subjects
from rwkvctl.tui.scores.columns import FIXED, MatrixView, columns, in_words
from rwkvctl.tui.scores.runs import ScoredRun, pair_of_runs
from rwkvctl.tui.scores.source import ScoreSource
from rwkvctl.tui.scores.subjects import EVERY, Subject, subjects_of
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.widgets.chart import Chart
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.matrix_table import MatrixTable
from rwkvctl.tui.widgets.table import LOADING, VTable

REST_S: Final = 0.1
"""The cursor rests so long on a cell before its runs are asked for."""

COMPARED: Final = 6
"""Runs of a cell that are compared with the one before, as many as are seen at once."""

LEGEND: Final = (
    (" ▲", "ok"), (" better  ", "dim"), ("▼", "worse"), (" worse than the baseline (p<.05, Holm)  ", "dim"),
    ("~", ""), (" not comparable  ", "dim"), ("▸", "info"), (" running  ", "dim"), ("!", "warn"),
    (" no verdict, or cut off  ", "dim"), ("·", ""), (" never run", "dim"),
)  # fmt: skip


class Scores(ConsoleScreen):
    """The matrix, and what lies behind the cell under the cursor."""

    NAME = "scores"
    FIRST_PANEL = "matrix"
    DEFAULT_CSS = """
    Scores #matrix { height: 1fr; min-height: 4; }
    Scores #runs, Scores #subjects { height: 7; }
    Scores #trend { height: 8; }
    Scores.-dense #legend { display: none; }
    Scores.-dense #trend { height: 7; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "compare", "Compare"),
        Binding("b", "baseline", "Baseline"),
        Binding("g", "group", "Group…", priority=True),
        Binding("t", "trend", "Trend"),
        Binding("R", "rerun", "Rerun…", key_display="R"),
        Binding("m", "metric", "Metric…", show=False),
    ]

    choice = Choice()
    said = ""
    drawn: object = None
    asked: object = None
    counted: object = None
    over_runs = charted = by_subject = False
    """Whether the curve is over runs; on a small terminal, whether it is shown; whether subjects are, for runs."""

    def body(self) -> Iterable[Widget]:
        self.source = ScoreSource(self.console_app.link, self.console_app.state.scores)
        self.shown = MatrixView()
        self.matrix = MatrixTable[MatrixRow](columns(self.shown), lambda row: row.name, id="matrix", empty=LOADING)
        self.matrix.fixed = FIXED
        self.cell, self.legend = Lines(id="cell"), Lines(id="legend")
        self.runs = VTable[ScoredRun](runs.COLUMNS, lambda run: run.view.job, id="runs")
        self.subjects = VTable[Subject](subjects.COLUMNS, lambda subject: subject.name, id="subjects")
        self.trend = Chart(id="trend")
        yield from (self.matrix, self.cell, self.legend, self.runs, self.subjects, self.trend)

    # -- where we are ----------------------------------------------------------------------------------------------

    @property
    def row(self) -> MatrixRow | None:
        """Return the row under the cursor; None if there is none."""
        table = self.matrix
        return table.listing.row(table.cursor) if table.chosen else None

    @property
    def key(self) -> Key | None:
        """Return the benchmark and kind of the column under the cursor; None on the fixed columns."""
        place = self.matrix.at_column - FIXED
        return self.shown.keys[place] if 0 <= place < len(self.shown.keys) else None

    def path(self) -> list[str]:
        choice = self.choice
        size = "" if choice.size is None else f"models of {choice.size:g}b"
        said = [f"baseline: {choice.baseline or 'pinned, or previous model'}", choice.domain, size, choice.metric]
        return ["Scores", " · ".join(filter(None, said))]

    def command(self) -> str:
        row, key = self.row, self.key
        about = ["--model", row.name, "--benchmark", key[0], "--all-versions"] if row and key else []
        return as_typed(["rwkvctl", "scores", *about])

    def leave(self) -> None:
        """Cancel the comparisons and the read of the cell."""
        self.asked = None
        for group in ("compare", "cell"):
            self.workers.cancel_group(self, group)

    # -- drawing ---------------------------------------------------------------------------------------------------

    def draw(self, state: ConsoleState) -> None:
        stale = bool(state.problem)
        if not (state.scores.complete and self.source.ready) and not stale and not self.busy("read"):
            self.start("read", self.read)
        running, compared = running_of(state.jobs.values(), self.source.training), self.source.verdicts
        room = self.app.size.width - 1
        source, revision = self.source, state.scores.revision
        now = (source.ready, source.models, revision, running, len(compared), self.choice, stale, room)
        if now != self.drawn:
            self.drawn = now
            ready = self.source.ready
            scores = state.scores.models if ready else {}
            rows = rows_of(self.source.models, scores, running if ready else {}, compared, self.choice)
            keys = keys_of(rows, self.source.domains, self.choice.domain)
            if (keys, self.choice, room) != (self.shown.keys, self.shown.choice, self.shown.room):
                self.shown = MatrixView(
                    keys, self.choice, self.shown.common, room=room
                )  # counted anew if the keys differ
                self.matrix.set_columns(columns(self.shown))
            self.matrix.show(self.matrix.title or "Scores", rows, stale=stale)
            self.count_in()
        self.look()
        if not stale and not self.busy("compare") and self.next_pair():
            self.start("compare", self.compare_rows)

    def busy(self, group: str) -> bool:
        """Return whether a worker of a group is running."""
        return any(worker.group == group and worker.node is self and worker.is_running for worker in self.workers)

    def count_in(self) -> None:
        """Choose the columns of the mean: those that all shown rows have."""
        listing, shown, book = self.matrix.listing, self.shown, self.console_app.state.scores
        counted = (book.revision, shown.keys, shown.choice, tuple(listing.shown))
        if counted != self.counted:
            self.counted = counted
            rows = [listing.row(place) for place in range(len(listing))]
            common = shared(rows, shown.keys, shown.choice.metric)
            if common != shown.common:
                shown.common = common
                listing.arrange()
                self.matrix.repaint()
        over = (
            f"mean over the {len(shown.common)} that all have"
            if shown.common
            else "no mean: no benchmark that all have"
        )
        count = len(listing.rows)
        said = f"{count} model{'s' * (count != 1)} × {len(shown.keys)} · newest first · {over}"
        if not listing.rows:
            self.matrix.empty = "no scores yet: press 1, then D to dispatch" if self.source.ready else LOADING
            self.matrix.repaint()
        self.matrix.called(said if self.source.ready else self.said or f"loading scores… {book.count:,}")

    def look(self) -> None:
        """Show what is known of the cell under the cursor."""
        row, key, stale = self.row, self.key, bool(self.console_app.state.problem)
        dense = self.has_class("-dense")
        self.legend.show([LEGEND], stale=stale)
        self.cell.show([in_words(row, key, self.shown) if row and key else []], stale=stale)
        self.subjects.display = self.by_subject
        self.runs.display = not self.by_subject and not (dense and self.charted)
        self.trend.display = not self.by_subject and self.charted if dense else True
        if row is not None and key is not None:
            self.look_behind(row, key, stale=stale)

    def look_behind(self, row: MatrixRow, key: Key, *, stale: bool) -> None:
        """Show the runs of a cell and the curve through it; ask for the runs if they are not known."""
        found = self.source.known_runs(row.name, key)
        known = found or []
        cell = (row.name, key, row.cells.get(key))
        if cell != self.asked and not stale:
            self.asked = cell
            self.start("cell", partial(self.read_cell, row.name, key))
        self.runs.empty = LOADING if found is None and cell[2] else "never run; R runs it"
        title = f"{row.name} × {self.shown.title(key)}"
        count = "1 run" if len(known) == 1 else f"{len(known)} runs, newest first"
        other = cell[2].measured_as if cell[2] else ""
        said = f" · measured as {other}: the same weights" if other else ""
        self.runs.show(f"{title} · {count}{said}", known, stale=stale)
        curve = curves.pick(self.matrix.listing.rows, row, key, known, self.choice.metric, over_runs=self.over_runs)
        title_of_curve = [(f"{self.shown.title(key)} {curve.title}", "title"), ("  t", "accent"), (" turns", "dim")]
        self.trend.show(title_of_curve, curve.points, curve.scale, stale=stale)

    # -- asking ----------------------------------------------------------------------------------------------------

    async def read(self) -> None:
        """Fetch all scores; an error is reported once."""
        try:
            await self.source.read()
            self.said = ""
        except RwkvctlError as error:
            if str(error) != self.said:
                self.said = str(error)
                self.console_app.say(self.said, "bad")
        self.draw(self.console_app.state)

    def next_pair(self) -> tuple[str, str] | None:
        """Return the next visible row that was not compared yet, the one under the cursor first."""
        table = self.matrix
        top = table.scroll_offset.y
        places = [table.cursor, *range(top, top + table.page_rows)]
        rows = (table.listing.row(place) for place in places if place < table.count)
        return next(((row.base, row.name) for row in rows if row.base and row.verdicts is None), None)

    async def compare_rows(self) -> None:
        """Compare the visible rows with their bases, one by one."""
        while pair := self.next_pair():
            try:
                await self.source.compare(*pair)
            except UnreachableError:
                return  # the top line says it; asked again when the daemon is back
            if not self.is_attached:  # the console is being left
                return
            self.draw(self.console_app.state)

    async def read_cell(self, model: str, key: Key) -> None:
        """Fetch the runs of the cell under the cursor, then compare each with the one before it."""
        await asyncio.sleep(REST_S)
        try:
            if self.source.known_runs(model, key) is None and self.job:
                await self.source.read_runs(model, key)
                self.look()
            for run in (self.source.known_runs(model, key) or [])[:COMPARED]:
                if run.before and run.against is None:
                    await self.source.compare_runs(run.before, run.view.job)
                    self.look()
        except UnreachableError:
            pass  # the top line says it
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")

    # -- what the operator does ------------------------------------------------------------------------------------

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Show the details of the cell under the cursor."""
        message.stop()
        if message.table is self.matrix:
            self.look()

    def on_matrix_table_filtered(self, message: MatrixTable.Filtered) -> None:
        """Compute the mean anew for the rows that are shown now."""
        message.stop()
        self.count_in()

    def on_matrix_table_intervals(self, message: MatrixTable.Intervals) -> None:
        """Show the intervals in the matrix, or hide them again."""
        message.stop()
        self.choose(self.choice._replace(intervals=not self.choice.intervals))

    def choose(self, choice: Choice) -> None:
        """Set what of the matrix is shown, and redraw it."""
        self.choice = choice
        self.console_app.draw()

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Open a cell's subjects if it has some, else its samples; or the samples of a run or subject."""
        message.stop()
        if message.table is self.matrix:
            self.open_cell()
        elif message.table is self.runs:
            self.console_app.go("samples", message.key)
        elif (job := self.job) is not None:
            subject = "" if message.key == EVERY else message.key
            self.console_app.go("samples", about_of(job, SampleFilter(subject=subject)))

    @property
    def job(self) -> str | None:
        """Return the job of the score under the cursor."""
        score = self.row.cells.get(self.key) if self.row and self.key else None
        return score.job if score else None

    def open_cell(self) -> None:
        """Open the subjects or samples of a cell, or the job that is running for it."""
        row, key, job = self.row, self.key, self.job
        if row is None or key is None:
            return
        if job is None:
            self.open_running(row.name, key)
            return
        runs = self.source.known_runs(row.name, key)
        if runs is None:
            self.run_worker(self.open_when_known(row.name, key), group="open", exclusive=True)
            return
        newest = next((run for run in runs if run.view.job == job), None)
        found = subjects_of(newest.view) if newest else []
        if not found:
            self.console_app.go("samples", job)
            return
        title = f"{row.name} × {self.shown.title(key)} · {len(found) - 1} subjects, the worst first"
        self.subjects.show(title, found)
        self.by_subject = True
        self.look()
        self.subjects.focus()

    async def open_when_known(self, model: str, key: Key) -> None:
        """Fetch the runs of a cell and open it, unless the cursor has moved by then."""
        try:
            await self.source.read_runs(model, key)
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")
            return
        if self.console_app.frame.active_view is self and self.row and (self.row.name, self.key) == (model, key):
            self.open_cell()

    def open_running(self, model: str, key: Key) -> None:
        """Open the job that measures a cell for the first time."""
        running = self.console_app.state.running
        active = next((job.id for job in running if (job.model, job.benchmark, job.kind) == (model, *key)), "")
        if active:
            self.console_app.go("job", active)
        else:
            self.console_app.say(f"{model} has never run on {self.shown.title(key)}; R runs it")

    def action_back(self) -> None:
        """Close the subjects if they are shown, else go back as on every screen."""
        if self.by_subject:
            self.by_subject = False
            self.look()
            self.matrix.focus()
        else:
            super().action_back()

    def action_compare(self) -> None:
        """Compare the two marked models, else the one under the cursor with its base."""
        if not self.targets_in(self.matrix):
            return
        table = self.panel
        if isinstance(table, VTable) and table.id == "runs":
            pair = pair_of_runs(table.listing.rows, table.targets)
        else:
            pair = pair_of(self.matrix.listing.rows, self.matrix.chosen, self.matrix.listing.marks)
        if pair:
            self.console_app.go("compare", as_typed(pair))
        else:
            self.console_app.say(
                "space marks two models to compare; b makes the model under the cursor the baseline", "warn"
            )

    def action_baseline(self) -> None:
        """Compare all models with the one under the cursor; pressed again, each with the one before it."""
        if not self.targets_in(self.matrix):
            return
        name = self.matrix.chosen
        base = "" if name == self.choice.baseline else name
        self.choose(self.choice._replace(baseline=base))
        self.console_app.say(f"baseline: {base or 'for each model the pinned one, or the previous one of its size'}")

    def action_trend(self) -> None:
        """Switch between the curves over checkpoints and over runs; on a small terminal show the curve first."""
        if self.has_class("-dense") and not self.charted:
            self.charted = True
        elif not self.over_runs:
            self.over_runs = True
        else:
            self.over_runs = self.charted = False
        self.look()

    def action_group(self) -> None:
        """Choose a domain of benchmarks, or a size of models."""
        scores = self.console_app.state.scores.models
        found = groups(self.source.models, scores, self.source.domains)
        self.ask("Show", [(group.words, group.changes) for group in found])

    def action_metric(self) -> None:
        """Open the menu of metrics that the cells may show."""
        names = metrics_of(self.matrix.listing.rows)
        self.ask(
            "Metric",
            [("the primary metric of each benchmark", {"metric": ""}), *((name, {"metric": name}) for name in names)],
        )

    def ask(self, title: str, choices: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Open a menu with these changes of what is shown."""
        from rwkvctl.tui.shell.dialogs import Menu  # forms are not part of the first frame

        def chosen(place: int | None) -> None:
            if place is not None:
                self.choose(self.choice._replace(**choices[place][1]))

        self.app.push_screen(Menu(title, [words for words, _ in choices]), chosen)

    def action_rerun(self) -> None:
        """Plan to measure the chosen cells again, and ask for confirmation."""
        models, row, key = self.targets_in(self.matrix), self.row, self.key
        if models and key is None:
            self.console_app.say("R runs the benchmark of a column: move to one with the arrow keys.", "warn")
        elif row is not None and key is not None and self.console_app.may_write():
            job = (self.job or "") if models == [row.name] else ""
            self.start("rerun", partial(rerun.ask, self.console_app, models, key, job))


SCREEN = Scores
