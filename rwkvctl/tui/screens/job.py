"""Job: the state of one job, its live log, and its latest samples."""

import asyncio
from collections.abc import Iterable
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.messages import JobReply, JobRequest, JobView, SamplesReply, SamplesRequest, SampleView
from rwkvctl.render import MARKS, Cell, bar, duration
from rwkvctl.tui import jobactions
from rwkvctl.tui.base import ConsoleScreen
from rwkvctl.tui.columns import Column
from rwkvctl.tui.jobcolumns import device_of, done_share, reason, score_of
from rwkvctl.tui.lines import Lines
from rwkvctl.tui.logfeed import LogFeed
from rwkvctl.tui.logview import LogView
from rwkvctl.tui.state import ConsoleState
from rwkvctl.tui.strips import Pieces
from rwkvctl.tui.table import VTable

SAMPLES: Final = 20
SAMPLES_EVERY_S: Final = 2.0
SHOWN: Final = 300
"""Characters of a model's text that a cell is made of; the rest is on the sample's own screen."""


def verdict(item: SampleView) -> Cell:
    """Right, wrong, or not known."""
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


class Job(ConsoleScreen):
    """One job, followed while the screen is shown."""

    NAME = "job"
    KEY = "2"
    TITLE = "Job"
    FIRST_PANEL = "log"
    DEFAULT_CSS = """
    Job #facts { height: 5; }
    Job #log { height: 1fr; min-height: 4; }
    Job #samples { height: 10; }
    Job.-dense #samples { height: 6; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop_job", "Stop…"),
        Binding("right_parenthesis", "next(1)", "Next job", key_display=")"),
        Binding("left_parenthesis", "next(-1)", "Job before", key_display="(", show=False),
    ]

    log_feed: LogFeed | None = None
    sample_count = -1

    def body(self) -> Iterable[Widget]:
        yield Lines(id="facts")
        yield LogView(id="log")
        yield VTable[SampleView](COLUMNS, lambda item: str(item.number), id="samples", empty="no samples yet")

    def arrive(self, about: str) -> None:
        """Follow a job again: the chosen one, or the first there is."""
        state = self.console_app.state
        known = [*state.running, *state.waiting, *state.ended]
        super().arrive(about or self.about or next((job.id for job in known), ""))
        self.follow()

    def leave(self) -> None:
        """Nobody looks; what has been read stays."""
        self.workers.cancel_group(self, "job")

    def path(self) -> list[str]:
        return ["Job", self.about] if self.about else ["Job"]

    def command(self) -> str:
        return f"rwkvctl logs {self.about} -f" if self.about else "rwkvctl jobs"

    def follow(self) -> None:
        """Follow this job; another one starts anew."""
        job_id, log = self.about, self.query_one("#log", LogView)
        if self.log_feed is None or self.log_feed.target != job_id:
            self.log_feed, self.sample_count = LogFeed(self.console_app.link, job_id, log.store), -1
            log.clear()
            self.query_one("#samples", VTable).show("Samples", [])
        self.workers.cancel_group(self, "job")
        if job_id:
            self.run_worker(self.read_job(job_id), group="job")
            self.run_worker(self.log_feed.follow(), group="job")
            self.run_worker(self.read_samples(job_id), group="job")

    def draw(self, state: ConsoleState) -> None:
        job = state.jobs.get(self.about)
        lines = facts(job, state) if job else [[(" no job chosen: open one in the Overview with enter", "dim")]]
        self.query_one("#facts", Lines).show(lines, stale=bool(state.problem))
        self.query_one("#log", LogView).stale = bool(state.problem)

    async def read_job(self, job_id: str) -> None:
        """Fetch a job that the overview does not list."""
        state = self.console_app.state
        if job_id not in state.jobs:
            try:
                state.jobs[job_id] = (await self.console_app.link.ask(JobRequest(job=job_id), JobReply)).item
            except RwkvctlError as error:
                self.console_app.say(str(error), "bad")
            self.draw(state)

    async def read_samples(self, job_id: str) -> None:
        """Fetch the latest samples whenever there are new ones."""
        table: VTable[SampleView] = self.query_one("#samples", VTable)
        while True:
            job = self.console_app.state.jobs.get(job_id)
            if job is None or job.done != self.sample_count:
                try:
                    request = SamplesRequest(job=job_id, latest=True, limit=SAMPLES)
                    reply = await self.console_app.link.ask(request, SamplesReply)
                    table.show("Samples, newest first", list(reply.items))
                    self.sample_count = job.done if job else -1
                except RwkvctlError:
                    self.sample_count = -1  # asked for again; the health line says what is wrong
            await asyncio.sleep(SAMPLES_EVERY_S)

    def action_stop_job(self) -> None:
        """Ask whether to stop this job."""
        if self.about:
            self.run_worker(jobactions.stop(self.console_app, [self.about]), group="stop")

    def action_next(self, by: int) -> None:
        """Go to the next or previous job."""
        state = self.console_app.state
        known = [job.id for job in [*state.running, *state.waiting, *state.ended]]
        if known:
            place = known.index(self.about) + by if self.about in known else 0
            self.console_app.go("job", known[place % len(known)])


def facts(job: JobView, state: ConsoleState) -> list[Pieces]:
    """The state of a job in five lines."""
    mark, role = MARKS[job.state]
    rate = f"{job.samples_per_s:.1f} samples/s" if job.samples_per_s else ""
    eta = f"ETA {duration(job.eta_s)}" if job.eta_s is not None else ""
    device = device_of(job, state)
    run = f"version {job.version}  attempt {job.attempt}  {job.numerics}  engine {job.engine or '–'}"
    return [
        [(f" {job.id} ", "bold"), (f" {job.model} × {job.benchmark} {job.kind} ", ""), (f" {mark} {job.state}", role)],
        [
            (" samples  ", "dim"),
            (bar(done_share(job), 30), "ok"),
            (f"  {job.done:,}/{job.total:,}  {100 * done_share(job):.1f} %  {rate}  {eta}", ""),
        ],
        [
            (" score    ", "dim"),
            (score_of(job), "bold"),
            (f"   stages {job.stages_done:,}/{job.stages_total:,}", ""),
        ],
        [(" run      ", "dim"), (f"{run}  on {device or '–'}  session {job.session}  priority {job.priority}", "")],
        [(" why      ", "dim"), (reason(job) or "–", "warn" if job.reason or job.detail else "dim")],
    ]


SCREEN = Job
