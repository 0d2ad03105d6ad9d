"""Queue: the waiting jobs in order and why they wait; what a dispatch with these filters would add and would not."""

import time
from collections.abc import Iterable
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.text.quantities import several
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.dispatch import flags, planner
from rwkvctl.tui.dispatch.flags import Words
from rwkvctl.tui.dispatch.plan_rows import GROUPS, ORDER, QueueRow, ReasonLine, estimated, lines, told, turns
from rwkvctl.tui.dispatch.planner import PlannedDispatch
from rwkvctl.tui.jobs.keys import VERBS, JobScreen
from rwkvctl.tui.shell.command_parser import words_about
from rwkvctl.tui.shell.status_line import drained
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable

AGAIN_S: Final = 10.0
"""The planner is not asked more often than this, however fast jobs come and go."""

OVERWRITE: Final = "--overwrite"


class Queue(JobScreen):
    """The live dry run. `about` are the flags of its filters, as `rwkvctl queue` takes them."""

    NAME = "queue"
    FIRST_PANEL = "order"
    DEFAULT_CSS = """
    Queue #order { height: 1fr; min-height: 4; }
    Queue #groups { max-height: 12; min-height: 2; }
    Queue.-dense #groups { max-height: 8; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("D", "dispatch_plan", "Dispatch these…", key_display="D"),
        Binding("f", "edit_filter", "Filters…"),
        *VERBS,
        Binding("O", "overwrite", "Include finished work", key_display="O", show=False),
    ]

    planned: PlannedDispatch | None = None
    problem = ""
    _asked_at = 0.0
    _asked_for: object = None

    def body(self) -> Iterable[Widget]:
        yield VTable[QueueRow](
            ORDER, lambda turn: turn.key, id="order", empty="no jobs are waiting; press D to dispatch"
        )
        yield VTable[ReasonLine](GROUPS, lambda line: line.key, id="groups", headed=False, empty=LOADING)
        yield Lines(id="same")

    def on_mount(self) -> None:
        """Groups are closed until the operator opens one."""
        self.opened: set[str] = set()

    def arrive(self, about: str) -> None:
        """Ask the planner what these filters (`about`, as they are typed) would run."""
        super().arrive(about)
        self.ask()

    @property
    def words(self) -> Words:
        """The filters in force, as words of a command line."""
        return tuple(words_about(self.about))

    def path(self) -> list[str]:
        return ["Queue", self.about] if self.about else ["Queue"]

    def headline(self, state: ConsoleState) -> Pieces:
        if self.planned is None:
            return [
                (" Queue › ", "title"),
                (self.problem or LOADING, "bad" if self.problem else "dim"),
            ]
        reply = self.planned.reply
        pairs = f"{several(reply.models, 'model')} × {several(reply.benchmarks, 'benchmark')}"
        return [
            (" Queue › preview of ", "title"), (self.about or "everything", "accent"),
            (f"   {pairs}: {several(len(reply.rows), 'row')}", ""),
            (f"   in {reply.computed_ms:.0f} ms", "dim"),
        ]  # fmt: skip

    def command(self) -> str:
        return flags.line("queue", self.words)

    def ask(self) -> None:
        """Ask the planner. An earlier request is dropped, and so is its answer if the filters were others."""
        if self.planned is not None and self.planned.words != self.words:
            self.planned = None
        self._asked_at = time.monotonic()
        self._asked_for = signature(self.console_app.state)
        self.run_worker(self._ask(), group="plan", exclusive=True)

    async def _ask(self) -> None:
        try:
            self.planned = await planner.plan(self.console_app, self.words)
            self.problem = ""
        except (RwkvctlError, ValueError) as error:
            self.problem = str(error)
            if not self.console_app.state.problem:
                self.console_app.say(self.problem, "bad")
        self.console_app.draw()

    def draw(self, state: ConsoleState) -> None:
        if not state.problem and signature(state) != self._asked_for and time.monotonic() > self._asked_at + AGAIN_S:
            self.ask()
        stale, reply = bool(state.problem), self.planned.reply if self.planned else None
        self.query_one("#order", VTable).show(self._title(state), turns(state.waiting, reply), stale=stale)
        groups = self.query_one("#groups", VTable)
        groups.empty = self.problem or ("nothing is left out or held" if reply else LOADING)
        groups.show(
            f"Would not run · {told(reply)}" if reply else "Would not run", lines(reply, self.opened), stale=stale
        )
        self.query_one("#same", Lines).show([[(" same as  ", "dim"), (self.command(), "info")]], stale=stale)

    def _title(self, state: ConsoleState) -> str:
        """Return how many jobs wait, how many the plan would add, and when all are expected to be done."""
        if state.problem:
            return "Waiting"
        fresh = self.planned.fresh if self.planned else 0
        parts = [f"Waiting {len(state.waiting):,}", drained(state)]
        parts += [f"would run {fresh:,} more" if fresh else "", estimated(self.planned.reply) if self.planned else ""]
        return " · ".join(filter(None, parts))

    @property
    def chosen_jobs(self) -> list[str]:
        """Return the chosen rows that are jobs; rows of the plan cannot be acted on."""
        return [key for key in self.query_one("#order", VTable).targets if not key.startswith("+")]

    @property
    def why_no_job(self) -> str:
        if self.query_one("#order", VTable).chosen:
            return "This row is no job yet: D dispatches the plan it belongs to."
        return str(self.query_one("#order", VTable).why_no_row)

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Open a job; open or close a group; for a row of the plan show the whole sentence."""
        message.stop()
        listing, place = message.table.listing, message.table.cursor
        row = listing.row(place)
        if isinstance(row, QueueRow) and row.job:
            self.console_app.go("job", row.job.id)
        elif isinstance(row, ReasonLine) and row.row is None:
            self.opened ^= {row.reason}
            self.draw(self.console_app.state)
        elif isinstance(row, ReasonLine) and row.row and row.row.job:
            self.console_app.go("job", row.row.job)
        elif row.row is not None:
            said = row.row.detail or f"{row.row.model} × {row.row.benchmark} {row.row.kind}: {row.row.reason}"
            self.console_app.say(said, for_s=15.0)

    def action_edit_filter(self) -> None:
        """Open the dispatch form filled with the filters in force."""
        self.console_app.plan_with(self.words)

    def action_overwrite(self) -> None:
        """Toggle whether the plan measures again what has a score; this queues nothing."""
        words = [word for word in self.words if word != OVERWRITE]
        again = words if OVERWRITE in self.words else [*words, OVERWRITE]
        self.console_app.go("queue", as_typed(again))

    def action_dispatch_plan(self) -> None:
        """Ask whether to dispatch exactly the plan shown."""
        if self.console_app.may_write():
            self.run_worker(self._dispatch(), group="ask")

    async def _dispatch(self) -> None:
        from rwkvctl.tui.shell.dialogs import Question

        planned = self.planned
        if planned is None:
            self.console_app.say(self.problem or "the plan is still loading; try again in a moment")
        elif not planned.fresh:
            self.console_app.plan_with(self.words)
        elif await self.console_app.push_screen_wait(Question(planner.question(planned))):
            try:
                self.console_app.say(await planner.dispatch(self.console_app, planned), "ok", for_s=15.0)
            except RwkvctlError as error:
                self.console_app.say(str(error), "bad")
            self.ask()


def signature(state: ConsoleState) -> object:
    """Return what must change for the plan to change: the ids of jobs, and the count of each state."""
    return tuple(sorted((name, number) for name, number in state.counts.items() if number))


SCREEN = Queue
