"""Jobs: every job in the store, newest first, by group and by words."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.cli.render import MARKS
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.replies import JobsReply
from rwkvctl.protocol.views import JobView
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.jobs import columns
from rwkvctl.tui.jobs.columns import JobRow, rows_of
from rwkvctl.tui.jobs.keys import VERBS, JobScreen
from rwkvctl.tui.jobs.pages import GROUPS, JobPages, is_plain
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable


class Jobs(JobScreen):
    """The list. `about` is a group and words: `failed gsm8k`. The next page comes as the cursor nears the end."""

    NAME = "jobs"
    DEFAULT_CSS = "Jobs #jobs { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "group(1)", "Next group"),
        Binding("F", "group(-1)", "Previous group", key_display="F", show=False),
        *VERBS,
        Binding("a", "samples", "Samples"),
        Binding("D", "app.dispatch", "Dispatch…", key_display="D"),
    ]

    def body(self) -> Iterable[Widget]:
        yield VTable[JobRow](columns.EVERY, lambda row: row.job.id, id="jobs", empty=LOADING)

    def on_mount(self) -> None:
        self.pages = JobPages()

    def arrive(self, about: str) -> None:
        """Show a group of jobs; the group shown last is as it was left, since events keep it up to date."""
        super().arrive(about)
        if JobPages.about(about).text != self.pages.text or not self.pages.known:
            self.pages = JobPages.about(about)
            self.fetch()

    def path(self) -> list[str]:
        return ["Jobs", self.about] if self.about else ["Jobs"]

    def command(self) -> str:
        states = GROUPS[self.pages.group]
        return "rwkvctl jobs" + (f" --state {states[0]}" if states else "")

    def headline(self, state: ConsoleState) -> Pieces:
        pieces: list[tuple[str, str]] = [(" Jobs › ", "title")]
        for name, states in GROUPS.items():
            count = sum(state.counts.get(one, 0) for one in states or state.counts)
            mark = f"{MARKS[states[0]][0]} " if states else ""
            pieces.append((f" {mark}{name} {count:,} ", "accent" if name == self.pages.group else "dim"))
        return [*pieces, (f"  with {self.pages.words}" if self.pages.words else "", "accent")]

    def fetch(self) -> None:
        """Request the next page, unless a request is in flight."""
        self.run_worker(self._fetch(self.pages), group="page", exclusive=True)

    async def _fetch(self, pages: JobPages) -> None:
        try:
            reply = await self.console_app.link.ask(pages.request, JobsReply)
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")
            return
        if pages is self.pages:
            pages.take(reply)
            self.draw(self.console_app.state)

    def draw(self, state: ConsoleState) -> None:
        table, pages = self.query_one("#jobs", VTable), self.pages
        rows = pages.update(state.jobs)
        if pages.known:
            table.empty = "no jobs in this group"
        read = f": {len(rows):,} read, more below" if pages.more else f" {len(rows):,}"
        table.show(pages.group + read, rows_of(rows, state), stale=bool(state.problem))
        if not pages.known and not state.problem and not self.workers_of("page"):
            self.fetch()

    def workers_of(self, group: str) -> bool:
        """Return whether a worker of this group is running."""
        return any(worker.group == group and worker.node is self and not worker.is_finished for worker in self.workers)

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Fetch the next page before its first row comes into view."""
        table = message.table
        if table.filter_text:  # it narrows what is there; on enter the daemon looks through the rest
            return
        if self.pages.more and table.cursor + 2 * table.page_rows >= table.count and not self.workers_of("page"):
            self.fetch()

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Go to the job that was opened in the table."""
        message.stop()
        self.console_app.go("job", message.key)

    @property
    def chosen_jobs(self) -> list[str]:
        """Return the marked jobs, else the one under the cursor."""
        return self.query_one("#jobs", VTable).targets

    def known(self, ids: Sequence[str]) -> list[JobView]:
        """Return the chosen jobs, also those that ended too long ago for the state to list them."""
        jobs = {job.id: job for job in self.pages.rows} | self.console_app.state.jobs
        return [jobs[job] for job in ids if job in jobs]

    def action_group(self, by: int) -> None:
        """Show the next or previous group of jobs; words that were searched for stay."""
        names = list(GROUPS)
        name = names[(names.index(self.pages.group) + by) % len(names)]
        self.console_app.go("jobs", JobPages(name, self.pages.words).text)

    def action_samples(self) -> None:
        """Go to the samples of the chosen job; of several, of the first."""
        if ids := self.jobs_meant():
            self.console_app.go("samples", ids[0])

    def action_filter(self) -> None:
        """Filter the loaded jobs with every letter; on enter the daemon searches all jobs."""
        table = self.query_one("#jobs", VTable)
        self.console_app.frame.ask(
            "/", table.filter_text or self.pages.words, changed=table.filter, done=self._filtered
        )

    def _filtered(self, text: str) -> None:
        table = self.query_one("#jobs", VTable)
        table.filter(text)
        if is_plain(text) and (self.pages.more or self.pages.words):
            table.filter("")
            self.console_app.go("jobs", JobPages(self.pages.group, text.strip()).text)

    def action_back(self) -> None:
        """Clear the search words if there are any, else go back as on every screen."""
        if self.pages.words and not self.query_one("#jobs", VTable).filter_text:
            self.console_app.go("jobs", JobPages(self.pages.group).text)
        else:
            super().action_back()


SCREEN = Jobs
