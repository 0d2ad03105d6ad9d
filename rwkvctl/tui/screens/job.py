"""Job: the state of one job, its live log, and its latest samples."""

import asyncio
from collections.abc import Iterable
from typing import ClassVar

import msgspec
from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.messages import (
    JobReply,
    JobRequest,
    JobView,
    LogsRequest,
    SamplesReply,
    SamplesRequest,
    SampleView,
)
from rwkvctl.render import MARKS, Cell, Column, Table, bar, duration, share
from rwkvctl.tui.base import ConsoleScreen
from rwkvctl.tui.state import ConsoleState
from rwkvctl.tui.widgets import Grid, Lines, LogView, Pieces
from rwkvctl.views import running_score, why

SAMPLES = 20
SAMPLES_EVERY_S = 2.0
LOG_AGAIN_S = 1.0


class Job(ConsoleScreen):
    """One job, followed while the screen is shown."""

    NAME = "job"
    KEY = "2"
    TITLE = "Job"
    DEFAULT_CSS = """
    Job #facts { height: 5; }
    Job #log { height: 1fr; min-height: 4; }
    Job #samples { height: 9; }
    Job.-short #samples { height: 6; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012 - Textual's declaration
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop_job", "Stop…"),
        Binding("escape", "app.show('overview')", "Back"),
        Binding("right_parenthesis", "next(1)", "Next job", key_display=")"),
        Binding("left_parenthesis", "next(-1)", "Previous", key_display="(", show=False),
    ]

    job_id = ""
    sample_count = -1

    def body(self) -> Iterable[Widget]:
        yield Lines(id="facts")
        yield LogView(id="log")
        yield Grid(id="samples")

    def on_screen_resume(self) -> None:
        """Follow a job again: the chosen one, or the first there is."""
        state = self.console_app.state
        self.follow(self.job_id or next((job.id for job in [*state.running, *state.waiting, *state.ended]), ""))

    def on_screen_suspend(self) -> None:
        self.workers.cancel_group(self, "job")

    def follow(self, job_id: str) -> None:
        """Show another job."""
        self.job_id, self.sample_count = job_id, -1
        self.query_one("#log", LogView).clear()
        self.query_one("#samples", Grid).show("Samples", samples([]))
        self.workers.cancel_group(self, "job")
        if job_id:
            self.run_worker(self.read_job(job_id), group="job")
            self.run_worker(self.read_log(job_id), group="job")
            self.run_worker(self.read_samples(job_id), group="job")
        self.paint(self.console_app.state)

    def draw(self, state: ConsoleState) -> None:
        job = state.jobs.get(self.job_id)
        lines = facts(job) if job else [[(" no job chosen: open one in the Overview with enter", "dim")]]
        self.query_one("#facts", Lines).show(lines, stale=bool(state.problem))

    async def read_job(self, job_id: str) -> None:
        """Fetch a job that the overview does not list."""
        state = self.console_app.state
        if job_id not in state.jobs:
            try:
                state.jobs[job_id] = (await self.console_app.link.ask(JobRequest(job=job_id), JobReply)).item
            except RwkvctlError as error:
                self.console_app.tell(str(error))
            self.paint(state)

    async def read_log(self, job_id: str) -> None:
        """Follow the log; after a loss go on behind the last byte that was seen."""
        view, request = self.query_one("#log", LogView), LogsRequest(target=job_id, tail=200, follow=True)
        while True:
            try:
                async for chunk in self.console_app.link.log(request):
                    view.feed(chunk.text)
                    request = LogsRequest(
                        target=job_id, tail=0, attempt=chunk.attempt, offset=chunk.offset, follow=True
                    )
            except RwkvctlError:
                view.refresh()  # the health line says what is wrong
            await asyncio.sleep(LOG_AGAIN_S)

    async def read_samples(self, job_id: str) -> None:
        """Fetch the latest samples whenever there are new ones."""
        while True:
            job = self.console_app.state.jobs.get(job_id)
            if job is None or job.done != self.sample_count:
                try:
                    request = SamplesRequest(job=job_id, latest=True, limit=SAMPLES)
                    reply = await self.console_app.link.ask(request, SamplesReply)
                    self.query_one("#samples", Grid).show("Samples, newest first", samples(reply.items))
                    self.sample_count = job.done if job else -1
                except RwkvctlError:
                    self.sample_count = -1  # asked for again; the health line says what is wrong
            await asyncio.sleep(SAMPLES_EVERY_S)

    def action_stop_job(self) -> None:
        """Ask whether to stop this job."""
        if self.job_id:
            self.console_app.ask_stop(self.job_id)

    def action_next(self, by: int) -> None:
        """Go to the next or previous job."""
        state = self.console_app.state
        known = [job.id for job in [*state.running, *state.waiting, *state.ended]]
        if known:
            place = known.index(self.job_id) + by if self.job_id in known else 0
            self.follow(known[place % len(known)])


def facts(job: JobView) -> list[Pieces]:
    """The state of a job in five lines."""
    mark, role = MARKS[job.state]
    record = msgspec.to_builtins(job)
    part = 1.0 if job.state == "done" else share(job.done, job.total)
    rate = f"{job.samples_per_s:.1f} samples/s" if job.samples_per_s else ""
    eta = f"ETA {duration(job.eta_s)}" if job.eta_s is not None else ""
    run = f"version {job.version}  attempt {job.attempt}  {job.numerics}  engine {job.engine or '–'}"
    return [
        [(f" {job.id} ", "bold"), (f" {job.model} × {job.benchmark} {job.kind} ", ""), (f" {mark} {job.state}", role)],
        [(" samples  ", "dim"), (bar(part, 30), "ok"), (f"  {job.done:,}/{job.total:,}  {rate}  {eta}", "")],
        [
            (" score    ", "dim"),
            (running_score(record), "bold"),
            (f"   stages {job.stages_done}/{job.stages_total}", ""),
        ],
        [(" run      ", "dim"), (f"{run}  session {job.session}  priority {job.priority}", "")],
        [(" why      ", "dim"), (why(record) or "–", "warn" if job.reason or job.detail else "dim")],
    ]


def samples(items: Iterable[SampleView]) -> Table:
    """Samples, one line each."""
    columns = [Column("ROW", right=True), Column(" "), Column("REASON"), Column("EXTRACTED", cut="end"),
               Column("EXPECTED", cut="end"), Column("COMPLETION", cut="end")]  # fmt: skip
    rows = [sample_row(item) for item in items]
    return Table(columns, rows, "no samples yet")


def sample_row(item: SampleView) -> list[str | Cell]:
    """One sample on one line; of the completion its end, where the answer is."""
    right = item.value is not None and item.value >= 1
    mark = Cell("–", "warn") if item.value is None else Cell("✓", "ok") if right else Cell("✗", "bad")
    completion = item.stages[-1].completion[-300:] if item.stages else ""
    extracted = "nothing" if item.extracted is None else item.extracted[:300]
    row = f"{item.row}.{item.repeat}" if item.repeat else str(item.row)
    return [row, mark, item.reason, extracted, item.expected[:300], completion.strip()]


SCREEN = Job
