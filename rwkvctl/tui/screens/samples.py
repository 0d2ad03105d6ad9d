"""Samples: all samples of a job, narrowed to wrong ones, a subject, or those with some text; and the same in groups."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.replies import JobReply
from rwkvctl.protocol.requests import JobRequest
from rwkvctl.text.sanitize import safe_line
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.samples.cache import SampleBook
from rwkvctl.tui.samples.columns import GROUPS, SampleRows, preview
from rwkvctl.tui.samples.filter import SampleFilter
from rwkvctl.tui.samples.outline import FILTERS, SampleGroup
from rwkvctl.tui.samples.summary import about_of, command_of, counts_line, listed, narrowed_by, title_of
from rwkvctl.tui.samples.table import SampleTable
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import VTable

PAUSE_S: Final = 0.15
"""After a letter, before texts are searched: the next one may come."""

EXPORTED_AT_ONCE: Final = 500
PREVIEW_ROWS: Final = 5


class Samples(ConsoleScreen):
    """The samples of one job. `about` is the job, then perhaps how they are narrowed: see `samples.summary`."""

    NAME = "samples"
    FIRST_PANEL = "list"
    DEFAULT_CSS = """
    Samples #list, Samples #groups { height: 1fr; }
    Samples #preview { height: 6; }
    Samples.-dense #preview, Samples #preview.-off { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "narrow", "Filter by result"),
        Binding("right_curly_bracket", "step(1, True)", "Next wrong", key_display="}"),
        Binding("left_curly_bracket", "step(-1, True)", "Previous wrong", key_display="{", show=False),
        Binding("right_parenthesis", "step(1, False)", "Next", key_display=")", show=False),
        Binding("left_parenthesis", "step(-1, False)", "Previous", key_display="(", show=False),
        Binding("g", "group", "Group", priority=True),
    ]

    book = SampleBook("")
    grouped = ""
    """`reason` or `subject` while groups are shown in place of samples."""

    def body(self) -> Iterable[Widget]:
        yield Lines(id="counts")
        yield SampleTable(id="list")
        groups = VTable[SampleGroup](GROUPS, lambda one: one.name, id="groups", empty="no groups")
        groups.display = False
        yield groups
        yield Lines(id="preview")

    @property
    def listed(self) -> SampleTable:
        return self.query_one(SampleTable)

    @property
    def groups(self) -> "VTable[SampleGroup]":
        return self.query_one("#groups", VTable)

    # -- what is shown ---------------------------------------------------------------------------------------------

    def arrive(self, about: str) -> None:
        """Show a job's samples; another job or filter starts again."""
        state = self.console_app.state
        known = [*state.running, *state.ended]
        about = about or self.about or next((job.id for job in known if job.done), "")
        job, narrowed = narrowed_by(about)
        other = about != self.about
        super().arrive(about)
        book = self.console_app.shelf.of(job)
        if other or book is not self.book:
            book.narrow(narrowed)
            self._show_groups("")
        self.book = book
        self.show()
        if book.at and (place := self.listed.listing.place_of(str(book.at), self.listed.cursor)) >= 0:
            self.listed.move_to(place)
        self.read(again=book.old, subjects=bool(narrowed.subject))

    def leave(self) -> None:
        """Stop reading; what has been read stays."""
        for group in ("outline", "texts", "search"):
            self.workers.cancel_group(self, group)
        if self.listed.chosen:
            self.book.at = int(self.listed.chosen)

    def path(self) -> list[str]:
        return ["Jobs", self.book.job, *listed(self.book)] if self.book.job else ["Samples"]

    def headline(self, state: ConsoleState) -> Pieces:
        job = state.jobs.get(self.book.job)
        of = f"  {job.model} × {job.benchmark} {job.kind}" if job else ""
        return [(" " + " › ".join(self.path()), "title"), (of, "dim")]

    def command(self) -> str:
        return as_typed(command_of(self.book)) if self.book.job else "rwkvctl samples"

    def draw(self, state: ConsoleState) -> None:
        job = state.jobs.get(self.book.job)
        stale = bool(state.problem)
        if self.listed.stale != stale:
            self.show()
        if job is not None and not stale and self.book.due(job.done):
            self.read(again=True)
        self.query_one("#counts", Lines).show([counts_line(self.book, job, self.size.width)], stale=stale)
        self._preview()

    def show(self) -> None:
        """Draw the book in its present state."""
        state = self.console_app.state
        self.listed.turn_to(self.book, title_of(self.book), stale=bool(state.problem))
        if self.grouped:
            self._show_groups(self.grouped)
        self.draw(state)

    def _grown(self, book: SampleBook) -> None:
        """Redraw if the book that has grown is the one shown."""
        if book is self.book:
            self.show()

    def read(self, *, again: bool = False, subjects: bool = False) -> None:
        """Fetch the missing part of the outline, and search for the text that the list is narrowed to, if any."""
        self.run_worker(self._read(self.book, again=again, subjects=subjects), group="outline", exclusive=True)
        if self.book.narrowed.text and (self.book.searching or again):
            self.run_worker(self._look_for(self.book), group="search", exclusive=True)

    async def _read(self, book: SampleBook, *, again: bool, subjects: bool) -> None:
        """Fetch the verdicts of all samples, and the job itself if the state does not list it."""
        link, jobs = self.console_app.link, self.console_app.state.jobs
        try:
            await book.read(link, lambda: self._grown(book), again=again, subjects=subjects)
            if book.job not in jobs:
                jobs[book.job] = (await link.ask(JobRequest(job=book.job), JobReply)).item
                self._grown(book)
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")
            book.problem = "the samples could not be read"
            self._grown(book)

    async def _look_for(self, book: SampleBook) -> None:
        """Search for a text after a pause in typing."""
        await asyncio.sleep(PAUSE_S)
        try:
            await book.search(self.console_app.link, lambda: self._grown(book))
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")

    def on_sample_table_bare(self, message: SampleTable.Bare) -> None:
        """Fetch the texts of rows on the screen that have none."""
        message.stop()
        if not any(worker.group == "texts" and worker.is_running for worker in self.workers):
            self.run_worker(self._read_texts(), group="texts")

    async def _read_texts(self) -> None:
        """Fetch texts until all visible rows have them."""
        while (numbers := self.listed.missing()) and self.display:
            book = self.book
            try:
                await book.read_texts(self.console_app.link, numbers)
            except RwkvctlError:
                return  # the top line says what is wrong; the next key asks again
            self.listed.look()
            self._preview()

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Preview the sample under the cursor."""
        message.stop()
        self._preview()

    def _preview(self) -> None:
        row = self.listed.listing.row(self.listed.cursor) if self.listed.chosen else None
        lines = preview(row, self.size.width - 1, PREVIEW_ROWS) if row and not self.grouped else []
        self.query_one("#preview", Lines).show(lines, title=[("Selected sample", "title")])

    # -- narrowing -------------------------------------------------------------------------------------------------

    def narrow(self, narrowed: SampleFilter) -> None:
        """Set how the list is narrowed, and start the search or the read of subjects that this needs."""
        book, before = self.book, self.book.narrowed
        book.narrow(narrowed)
        self.amend_place(about_of(book.job, narrowed))
        if narrowed.text != before.text:
            self.workers.cancel_group(self, "search")
            if narrowed.text:
                self.run_worker(self._look_for(book), group="search", exclusive=True)
        self.show()
        if narrowed.subject and not book.with_subjects:
            self.read(subjects=True)

    def action_narrow(self) -> None:
        """Switch to the next class that has samples; after the last one, show all."""
        book = self.book
        there = ["", *(name for name in FILTERS if book.outline.count(name))]
        now = there.index(book.narrowed.kind) if book.narrowed.kind in there else 0
        self.narrow(book.narrowed._replace(kind=there[(now + 1) % len(there)]))

    def action_filter(self) -> None:
        """Ask for a filter; the list follows every letter."""
        if self.grouped:
            super().action_filter()
        else:
            self.console_app.frame.ask("/", self.book.narrowed.typed, changed=self._typed, done=self._typed)

    def _typed(self, text: str) -> None:
        narrowed = self.book.narrowed.typing(text)
        if narrowed != self.book.narrowed:
            self.narrow(narrowed)

    def action_group(self) -> None:
        """Switch between samples by reason, by subject, and one by one."""
        self._show_groups({"": "reason", "reason": "subject", "subject": ""}[self.grouped])
        if self.grouped == "subject" and not self.book.with_subjects:
            self.read(subjects=True)

    def _show_groups(self, by: str) -> None:
        """Show the samples grouped by `reason` or `subject`; one by one if `by` is empty."""
        turned, self.grouped = by != self.grouped, by
        if by:
            outline = self.book.outline
            found = outline.by_subject() if by == "subject" else outline.by_reason()
            self.groups.empty = (
                "the samples of this job have no subjects" if self.book.with_subjects else "loading subjects…"
            )
            self.groups.show(f"by {by}", found, stale=bool(self.console_app.state.problem))
        if turned:
            self.groups.move_to(0)
            self.groups.display, self.listed.display = bool(by), not by
            self.query_one("#preview").set_class(bool(by), "-off")
            (self.groups if by else self.listed).focus(scroll_visible=False)
            self._preview()

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Open a sample, or the samples of a group."""
        message.stop()
        if message.table is self.listed:
            self.book.at = int(message.key)
            self.console_app.go("sample", f"{self.book.job}:{message.key}")
        elif self.grouped == "subject":
            self._show_groups("")
            self.narrow(self.book.narrowed._replace(subject=message.key))
        else:
            self._show_groups("")
            self.narrow(self.book.narrowed.typing(f'reason:="{message.key}"'))

    def action_back(self) -> None:
        """Undo the grouping, the search text, the subject, then the class; else go back to the screen before."""
        narrowed = self.book.narrowed
        if self.has_class("-zoomed") or self.listed.listing.marks:
            super().action_back()
        elif self.grouped:
            self._show_groups("")
        elif narrowed.typed:
            self.narrow(narrowed.typing(""))
        elif narrowed.subject or narrowed.kind:
            self.narrow(narrowed._replace(subject="") if narrowed.subject else narrowed._replace(kind=""))
        else:
            self.console_app.action_history(-1)

    # -- keys ------------------------------------------------------------------------------------------------------

    def action_step(self, by: int, wrong: bool) -> None:
        """Go to the next or previous sample, or the next wrong one."""
        if self.grouped:
            self.groups.action_move(by)
        elif self.targets_in(self.listed) and not self.listed.step(by, wrong=wrong):
            self.console_app.say(f"no more {'wrong ' if wrong else ''}samples in this direction", "warn")

    def action_export(self) -> None:
        """Ask for a file's name and write there what the list shows, all of it."""
        if self.grouped:
            super().action_export()
        else:
            name = f"rwkvctl-samples-{self.book.job}.csv"
            self.console_app.frame.ask("x", name, done=self._export)

    def _export(self, name: str) -> None:
        self.run_worker(self._write(self.book, Path(name).expanduser()), group="export", exclusive=True)

    async def _write(self, book: SampleBook, path: Path) -> None:
        """Fetch the texts of all shown samples, and write the file."""
        from rwkvctl.tui.widgets.table_export import written

        console, columns = self.console_app, self.listed.listing.columns
        samples, rows = SampleRows(book), list[list[str]]()
        try:
            for start in range(0, len(book.order), EXPORTED_AT_ONCE):
                places = book.order[start : start + EXPORTED_AT_ONCE]
                await book.read_texts(console.link, [book.outline.numbers[place] for place in places])
                rows += [[safe_line(column.exported(samples[place])) for column in columns] for place in places]
                console.say(f"{len(rows):,} of {len(book.order):,} samples loaded")
            titles = [column.field for column in columns]
            written(path, titles, rows)
        except (RwkvctlError, ValueError, OSError) as error:
            console.say(str(error), "bad")
        else:
            console.say(f"{len(rows):,} rows written to {path.absolute()}", for_s=15.0)


SCREEN = Samples
