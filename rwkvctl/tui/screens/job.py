"""Job: the progress of one job, the sample being generated, its log and latest samples; with `c` all its settings."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.cli.render import Cell
from rwkvctl.protocol.errors import RefusedError, RwkvctlError
from rwkvctl.protocol.record import ReproReply, ReproRequest
from rwkvctl.protocol.replies import JobReply, JudgeReply, NowReply, SamplesReply, SoFarReply
from rwkvctl.protocol.requests import JobRequest, JudgeRequest, NowRequest, SamplesRequest, SoFarRequest
from rwkvctl.protocol.states import TERMINAL
from rwkvctl.protocol.views import JobView, SampleView
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.jobs import detail_lines
from rwkvctl.tui.jobs.keys import VERBS, JobScreen
from rwkvctl.tui.logs.feed import LogFeed
from rwkvctl.tui.logs.merge import LogMerge
from rwkvctl.tui.logs.view import FLUSH_S, LogView
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.reader import Reading, folded
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable
from rwkvctl.tui.widgets.table_columns import Column

SAMPLES: Final = 20
SAMPLES_EVERY_S: Final = 2.0
NOW_EVERY_S: Final = 1.0
PREVIOUS_EVERY_S: Final = 10.0
SHOWN: Final = 300
"""Characters of a model's text that a cell is made of; the rest is on the sample's own screen."""


def verdict(item: SampleView) -> Cell:
    """Return the sign of a sample's verdict: right (value of at least 1), wrong, or `–` if it has no value."""
    if item.value is None:
        return Cell("–", "warn")
    return Cell("✓", "ok") if item.value >= 1 else Cell("✗", "bad")


COLUMNS: Final[tuple[Column[SampleView], ...]] = (
    Column("ROW", lambda item: f"{item.row}.{item.repeat}" if item.repeat else str(item.row), 7, right=True,
           value=lambda item: item.row),
    Column(" ", verdict, 1, value=lambda item: item.value, name="value"),
    Column("REASON", lambda item: item.reason, 12, least=8),
    Column("EXTRACTED", lambda item: "nothing" if item.extracted is None else item.extracted[:SHOWN], 14, least=9,
           grow=1),
    Column("EXPECTED", lambda item: item.expected[:SHOWN], 14, least=8, grow=1),
    Column("COMPLETION", lambda item: item.stages[-1].completion[-SHOWN:].strip() if item.stages else "", 20, least=12,
           grow=3),
)  # fmt: skip


class Job(JobScreen):
    """One job, followed while the screen is shown."""

    NAME = "job"
    FIRST_PANEL = "samples"
    DEFAULT_CSS = """
    Job #now { height: 5; }
    Job #log { height: 1fr; min-height: 4; }
    Job #samples { height: 10; }
    Job #settings { height: 1fr; display: none; }
    Job.-settings #settings { display: block; }
    Job.-settings #now, Job.-settings #log, Job.-settings #samples { display: none; }
    Job.-dense #now { height: 4; }
    Job.-dense #samples { height: 6; }
    Job.-over #samples { height: 1fr; }
    Job.-over #log { height: 9; }
    Job.-over.-dense #log { height: 6; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *VERBS,
        Binding("a", "samples", "All samples"),
        Binding("c", "settings", "Settings"),
        Binding("right_parenthesis", "other(1)", "Next sample being generated", key_display=")", show=False),
        Binding("left_parenthesis", "other(-1)", "Previous sample being generated", key_display="(", show=False),
        Binding("f", "freeze", "Freeze or continue the text", show=False),
        Binding("right_curly_bracket", "next(1)", "Next job", key_display="}", show=False),
        Binding("left_curly_bracket", "next(-1)", "Previous job", key_display="{", show=False),
    ]

    log_feed: LogFeed | None = None
    item: JobView | None = None
    previous_run: SoFarReply | None = None
    now: NowReply | None = None
    repro: ReproReply | None = None
    judge: JudgeReply | None = None
    frozen = False
    sample_count = -1

    def on_mount(self) -> None:
        """Prepare the empty screen; log lines are merged in order before they are drawn."""
        self.configuration: dict[str, object] = {}
        self.set_interval(FLUSH_S, self._flush)

    def _flush(self) -> None:
        if self.log_feed is not None:
            self.log_feed.merge.flush()

    def body(self) -> Iterable[Widget]:
        yield Lines(id="facts", grows=True)
        yield Reading(id="settings", wraps=True)
        yield Lines(id="now")
        yield LogView(id="log")
        yield VTable[SampleView](COLUMNS, lambda item: str(item.number), id="samples", empty=LOADING)

    def arrive(self, about: str) -> None:
        """Follow a job again: the chosen one, or the first there is."""
        state = self.console_app.state
        known = [*state.running, *state.waiting, *state.ended]
        super().arrive(about or self.about or next((job.id for job in known), ""))
        self.follow()

    def leave(self) -> None:
        """Stop reading; what has been read stays."""
        self.workers.cancel_group(self, "job")

    def path(self) -> list[str]:
        return ["Jobs", self.about] if self.about else ["Jobs"]

    def command(self) -> str:
        return f"rwkvctl show {self.about}" if self.about else "rwkvctl jobs"

    @property
    def chosen_jobs(self) -> list[str]:
        """Return the id of the job that is shown; empty if there is none."""
        return [self.about] if self.about else []

    @property
    def why_no_job(self) -> str:
        return "No job is selected: open one in Jobs (3)."

    def known(self, ids: "Iterable[str]") -> list[JobView]:
        """Return this job, also if the state does not list it."""
        job = self.job
        return [job] if job is not None and job.id in ids else []

    @property
    def job(self) -> JobView | None:
        """Return the newest view of the job, with its score as last fetched."""
        heard, asked = self.console_app.state.jobs.get(self.about), self.item
        if asked is None or asked.id != self.about:
            return heard
        return asked if heard is None or (heard.state == asked.state and heard.score is None and asked.score) else heard

    def follow(self) -> None:
        """Follow this job; for another job than before, start anew."""
        job_id, log = self.about, self.query_one("#log", LogView)
        if self.log_feed is None or self.log_feed.target != job_id:
            merge = LogMerge(log.store)
            self.log_feed, self.sample_count = LogFeed(self.console_app.link, job_id, merge, alone=True), -1
            self.item = self.previous_run = self.now = self.repro = None
            self.frozen, self.configuration = False, {}
            log.clear()
            samples: VTable[SampleView] = self.query_one("#samples", VTable)
            samples.empty = LOADING
            samples.show("Samples", [])
        self.workers.cancel_group(self, "job")
        if job_id:
            self.run_worker(self.log_feed.follow(), group="job")
            for every_s, read in ((SAMPLES_EVERY_S, self.read_job), (SAMPLES_EVERY_S, self.read_samples),
                                  (NOW_EVERY_S, self.read_now),
                                  (PREVIOUS_EVERY_S, self.read_previous_run)):  # fmt: skip
                self.run_worker(self.again(every_s, read), group="job")

    async def again(self, every_s: float, read: Callable[[], Awaitable[None]]) -> None:
        """Repeat a read at an interval until the daemon refuses it; other errors are left to the health line."""
        while True:
            try:
                await read()
            except RefusedError as error:
                self.console_app.say(str(error), "bad")
                return
            except RwkvctlError:
                self.sample_count = -1
            await asyncio.sleep(every_s)

    async def read_job(self) -> None:
        """Fetch what no event carries, the score and the settings, whenever the job's state changes."""
        heard, asked = self.console_app.state.jobs.get(self.about), self.item
        if asked is None or (heard is not None and heard.state != asked.state):
            reply = await self.console_app.link.ask(JobRequest(job=self.about), JobReply)
            self.item, self.configuration = reply.item, reply.configuration
            self.draw(self.console_app.state)
        judging = self.job is not None and self.job.state == "judging"
        self.judge = await self.console_app.link.ask(JudgeRequest(), JudgeReply) if judging else None

    async def read_samples(self) -> None:
        """Fetch the latest samples whenever there are new ones; a job that uses another one's score has none."""
        if self.job is None:
            await self.read_job()
        job, table = self.job, self.query_one("#samples", VTable)
        without = job is not None and (job.state, job.reason) == ("done", "done")
        if without:
            table.empty = "no samples of its own"
            table.repaint()
            return
        if job is None or job.done != self.sample_count:
            request = SamplesRequest(job=self.about, latest=True, limit=SAMPLES, tail=SHOWN)
            reply = await self.console_app.link.ask(request, SamplesReply)
            table.empty = "no samples yet"
            table.show("Samples, newest first", list(reply.items))
            self.sample_count = job.done if job else -1

    async def read_now(self, step: int = 0) -> None:
        """Fetch the sample that is being generated."""
        job = self.job
        if (
            job is None
            or (self.frozen and not step)
            or (job.state not in {"starting", "generating"} and self.now is None)
        ):
            return
        sample = self.now.sample if self.now else ""
        self.now = await self.console_app.link.ask(NowRequest(job=self.about, sample=sample, step=step), NowReply)
        self.show_now()

    async def read_previous_run(self) -> None:
        """Fetch the comparison with the last run, on the rows that both have."""
        job = self.job
        if job is not None and job.done and (self.previous_run is None or self.previous_run.rows < job.done):
            found = await self.console_app.link.ask(SoFarRequest(job=self.about), SoFarReply)
            if (
                not found.looking or self.previous_run is None or self.previous_run.looking
            ):  # else the last one is shown meanwhile
                self.previous_run = found
            self.draw(self.console_app.state)

    def draw(self, state: ConsoleState) -> None:
        job, stale, width = self.job, bool(state.problem), max(40, self.size.width)
        self.set_class(job is not None and job.state in TERMINAL, "-over")
        lines: list[Pieces] = [[(" no job selected: open one in Jobs (3)", "dim")]]
        if job is not None:
            said = [row for line in detail_lines.trouble(job) for row in folded(line, width)]
            lines = [
                detail_lines.head(job, state.heard_at or time.time()), detail_lines.progress(job, width),
                detail_lines.stages(job, self.judge), detail_lines.score(job, self.previous_run),
                *detail_lines.engine(job, state), *said,
            ]  # fmt: skip
        self.query_one("#facts", Lines).show(lines, stale=stale)
        self.query_one("#log", LogView).stale = stale
        self.show_now()
        if job is not None and self.has_class("-settings"):
            found = detail_lines.configured(job, self.configuration, self.repro)
            self.query_one("#settings", Reading).show(found, title=[("Settings", "title"), ("  c goes back", "dim")])

    def show_now(self) -> None:
        """Draw the sample that is being generated; if there is none, the log takes its room."""
        lines = self.query_one("#now", Lines)
        lines.display = self.now is not None and not self.has_class("-settings")
        shown = detail_lines.now_lines(self.now, max(40, self.size.width), lines.size.height - 1)
        stale = bool(self.console_app.state.problem)
        lines.show(shown, title=detail_lines.now_title(self.now, frozen=self.frozen), stale=stale)

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Go to the sample that was opened in the table."""
        message.stop()
        self.console_app.go("sample", f"{self.about}:{message.key}")

    def action_samples(self) -> None:
        """Go to the list of this job's samples."""
        if self.jobs_meant():
            self.console_app.go("samples", self.about)

    def action_settings(self) -> None:
        """Show all settings of the job, or hide them again."""
        self.toggle_class("-settings")
        if self.has_class("-settings"):
            self.query_one("#settings", Reading).focus()
            self.run_worker(self._ask_repro(), group="repro", exclusive=True)
        else:
            self.query_one("#samples", VTable).focus()
        self.draw(self.console_app.state)

    async def _ask_repro(self) -> None:
        try:
            self.repro = await self.console_app.link.ask(ReproRequest(job=self.about), ReproReply)
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")
        self.draw(self.console_app.state)

    def action_other(self, by: int) -> None:
        """Show another sample that is being generated."""
        self.run_worker(self._other(by), group="now", exclusive=True)

    async def _other(self, by: int) -> None:
        try:
            await self.read_now(by)
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")

    def action_freeze(self) -> None:
        """Freeze the shown text of the sample, or follow it again."""
        self.frozen = not self.frozen
        self.show_now()

    def action_next(self, by: int) -> None:
        """Go to the next or previous job."""
        state = self.console_app.state
        known = [job.id for job in [*state.running, *state.waiting, *state.ended]]
        if known:
            place = known.index(self.about) + by if self.about in known else 0
            self.console_app.go("job", known[place % len(known)])
        else:
            self.console_app.say("There is no other job: none runs, waits or has just ended.", "warn")

    def action_back(self) -> None:
        """Close the settings if they are shown, else go back as on every screen."""
        if self.has_class("-settings"):
            self.action_settings()
        else:
            super().action_back()


SCREEN = Job
