"""Sample: one answer of a model, how it was generated and graded; or two, side by side."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import DescendantFocus, Resize
from textual.widget import Widget

from rwkvctl.cli.render import short_model
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.replies import ExchangeReply, JobReply, ReviewReply, SameReply, SamplesReply
from rwkvctl.protocol.requests import (
    ExchangeRequest,
    JobRequest,
    RegradeRequest,
    ReviewRequest,
    SameRequest,
    SamplesRequest,
)
from rwkvctl.protocol.views import SameView
from rwkvctl.text.sanitize import cell_width, safe_line
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.jobs import actions
from rwkvctl.tui.jobs.act import Act
from rwkvctl.tui.jobs.detail_lines import flat
from rwkvctl.tui.samples.cache import SampleBook
from rwkvctl.tui.samples.page import ShownSample, parts_of, same_line, summary
from rwkvctl.tui.samples.summary import place_line, regrade_question
from rwkvctl.tui.screen import NARROW, ConsoleScreen
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.text_view import TextView

SHORT: Final = 18
"""Cells for a model's name before a verdict."""

NEIGHBOURS: Final = 6
"""Samples that are kept, of which two may be shown: going back is at once."""


class Sample(ConsoleScreen):
    """One sample or two side by side. `about` is the job and the sample's number, `j12:4711`, or `j12:4711|j15:5022`
    for two."""

    NAME = "sample"
    FIRST_PANEL = "one"
    DEFAULT_CSS = """
    Sample #facts { height: 2; }
    Sample #texts { height: 1fr; }
    Sample #texts TextView { width: 1fr; }
    Sample #other { display: none; }
    Sample.-two.-wide #other { display: block; border-left: vkey $panel; }
    Sample.-two.-turned #other { display: block; }
    Sample.-two.-turned #one { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_curly_bracket", "step(1, True)", "Next wrong", key_display="}"),
        Binding("left_curly_bracket", "step(-1, True)", "Previous wrong", key_display="{", show=False),
        Binding("right_parenthesis", "step(1, False)", "Next", key_display=")"),
        Binding("left_parenthesis", "step(-1, False)", "Previous", key_display="(", show=False),
        Binding("d", "beside", "Compare"),
        Binding("r", "exchange", "Show judge"),
        Binding("p", "prompts", "Show whole prompts", show=False),
        Binding("e", "regrade", "Regrade…", show=False),
        Binding("tab", "turn", "Switch sides", show=False),
    ]

    alone = False
    """Whether rewritings are shown without their originals, because the operator has taken one away."""

    def body(self) -> Iterable[Widget]:
        self.told: list[ShownSample] = []
        self.cached: dict[tuple[str, int], ShownSample] = {}
        yield Lines(id="facts")
        with Horizontal(id="texts"):
            yield TextView(id="one")
            yield TextView(id="other")

    # -- what is shown ---------------------------------------------------------------------------------------------

    @property
    def places(self) -> list[tuple[str, int]]:
        """Return the job and number of each sample that is shown."""
        found = (word.partition(":") for word in self.about.split("|") if word)
        return [(job, int(number)) for job, _, number in found if number.isdecimal()][:2]

    @property
    def book(self) -> SampleBook:
        """Return the book of samples that this one is part of."""
        return self.console_app.shelf.of(self.places[0][0] if self.places else "")

    @property
    def views(self) -> tuple[TextView, TextView]:
        """The text widgets of the sample and of the one beside it; the second is hidden if there is none."""
        return self.query_one("#one", TextView), self.query_one("#other", TextView)

    @property
    def view(self) -> TextView:
        """Return the text widget that keys act on: of two side by side the focused one, else the one that is
        visible."""
        one, other = self.views
        if self.has_class("-two") and not self.has_class("-wide"):
            return other if self.has_class("-turned") else one
        return other if other.has_focus else one

    def arrive(self, about: str) -> None:
        """Show the sample, or two side by side, that `about` names; without one, those shown last."""
        other = bool(about) and about != self.about
        super().arrive(about or self.about)
        if other:
            self.remove_class("-turned")
            self.told = []
        self._widen()
        if self.places:
            self.run_worker(self._read(self.about, anew=other), group="sample", exclusive=True)

    def leave(self) -> None:
        """Stop reading samples while another screen is in front."""
        self.workers.cancel_group(self, "sample")

    def on_resize(self, event: Resize) -> None:
        """Decide anew whether two samples fit side by side."""
        self._widen()

    def _widen(self) -> None:
        self.set_class(self.size.width >= NARROW, "-wide")
        if self.size.width >= NARROW:
            self.remove_class("-turned")

    def path(self) -> list[str]:
        steps = [f"{job} sample {number}" for job, number in self.places]
        return ["Samples", " beside ".join(steps)] if steps else ["Sample"]

    def headline(self, state: ConsoleState) -> Pieces:
        names = [f"{item.model} × {item.benchmark} {item.kind}" for told in self.told if (item := told.item)]
        return [(" " + " › ".join(self.path()), "title"), ("  " + "  |  ".join(dict.fromkeys(names)), "dim")]

    def command(self) -> str:
        if not self.told:
            return "rwkvctl samples"
        one = self.told[0]
        if len(self.told) > 1:
            return f"rwkvctl samples diff {one.job} {self.told[1].job} --row {one.view.row} --repeat {one.view.repeat}"
        after = one.view.row * 1048576 + one.view.repeat - 1
        return f"rwkvctl samples {one.job} --after {after} --limit 1 --full"

    def draw(self, state: ConsoleState) -> None:
        stale = bool(state.problem)
        if not self.told:
            said = " no sample chosen: open one from a job's samples" if not self.places else " …"
            self.query_one("#facts", Lines).show([[(said, "dim")]], stale=stale)
            return
        lines: list[Pieces] = [summary(self.told[0]), place_line(self.book, self.told[0].view)]
        if len(self.told) > 1:
            read = self.views.index(self.view)
            lines = [
                [("  ▸  ", "accent") if place == read else (" tab ", "dim"), (self.whose(told), "bold"), *summary(told)]
                for place, told in enumerate(self.told)
            ]
        self.query_one("#facts", Lines).show(lines, stale=stale)
        for view in self.views:
            if view.stale != stale:
                view.stale = stale
                view.refresh()

    def whose(self, told: ShownSample) -> str:
        """Return job and model of one of two samples, shortened to leave room for the verdict."""
        names = [short_model(safe_line(one.item.model), SHORT) if one.item else "" for one in self.told]
        return f"{told.job:<5} {names[self.told.index(told)]:<{max(map(cell_width, names))}}"

    def show(self, *, anew: bool = False) -> None:
        """Draw the samples that have been read, as stale while the daemon is away; `anew` begins at the top."""
        stale = bool(self.console_app.state.problem)
        for view, told in zip(self.views, self.told, strict=False):
            view.show(parts_of(told), stale=stale, anew=anew)
        self.draw(self.console_app.state)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def _read(self, about: str, *, anew: bool) -> None:
        """Fetch the samples that `about` names, then what else is known of them."""
        try:
            told = [await self._told(job, number) for job, number in self.places]
            if len(told) == 1 and (original := await self._original_of(told[0])) is not None:
                told.append(original)
            if len(told) > 1:
                await asyncio.to_thread(mark, told[0], told[1])
            if about != self.about:
                return
            if len(told) > len(self.places):
                self.amend_place("|".join(f"{one.job}:{one.view.number}" for one in told))
            self.set_class(len(told) > 1, "-two")
            self.told = told
            self.show(anew=anew)
            for one in told:
                await self._read_more(one)
                self.show()
            self.console_app.draw()
            if not self.book.outline.whole:
                await self.book.read(self.console_app.link, lambda: self.draw(self.console_app.state))
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")

    async def _told(self, job: str, number: int) -> ShownSample:
        """Return a sample with its texts, from the cache or the daemon. Raises RwkvctlError if the job has no such
        sample."""
        known = self.cached.get((job, number))
        if known is None:
            reply = await self.console_app.link.ask(SamplesRequest(job=job, numbers=(number,), limit=1), SamplesReply)
            if not reply.items:
                raise RwkvctlError(f"{job} has no sample {number}: it may have been regraded")
            known = ShownSample(job, reply.items[0])
            self.cached[job, number] = known
            for old in list(self.cached)[:-NEIGHBOURS]:
                del self.cached[old]
        known.places = ()
        return known

    async def _original_of(self, told: ShownSample) -> ShownSample | None:
        """Return the sample that this one rewrites; None if it rewrites none, is to be shown alone, or has an original
        that cannot be read."""
        listed = self.console_app.state.jobs.get(told.job)
        if self.alone or (listed is not None and not listed.source_job):
            return None
        try:
            await self._read_job(told)
            if told.item is None or not told.item.source_job:
                return None
            one = original_in(await self._read_same(told))
            return await self._told(one.job, one.number) if one is not None else None
        except RwkvctlError as error:
            self.console_app.say(f"The original cannot be shown: {error}", "bad")
            return None

    async def _read_job(self, told: ShownSample) -> None:
        """Fetch the job of a sample. Raises RwkvctlError."""
        if told.item is None:
            reply = await self.console_app.link.ask(JobRequest(job=told.job), JobReply)
            told.item, told.configuration = reply.item, list(flat(reply.configuration))

    async def _read_same(self, told: ShownSample) -> Sequence[SameView]:
        """Return the same sample in other jobs. Raises RwkvctlError."""
        if told.same is None:
            request = SameRequest(job=told.job, row=told.view.row, repeat=told.view.repeat)
            told.same = (await self.console_app.link.ask(request, SameReply)).items
        return told.same

    async def _read_more(self, told: ShownSample) -> None:
        """Fetch the job, the same sample in other jobs, and the checker's verdict. Raises RwkvctlError."""
        await self._read_job(told)
        await self._read_same(told)
        if not told.is_complete:
            review = ReviewRequest(job=told.job, every=True, after=told.view.number - 1, limit=1)
            items = (await self.console_app.link.ask(review, ReviewReply)).items
            told.finding = next((item for item in items if item.sample == told.view.number), None)
            told.is_complete = True

    def _is_read(self) -> bool:
        """Return whether there is a sample for keys to act on; if not, tell the operator why."""
        if not self.told:
            loading = "The sample is still loading: press the key again when it is shown."
            none = "No sample is chosen: open one in a job's samples."
            self.console_app.say(loading if self.places else none, "warn")
        return bool(self.told)

    # -- keys ------------------------------------------------------------------------------------------------------

    def action_step(self, by: int, wrong: bool) -> None:
        """Go to the next or previous sample of the list, or the next wrong one."""
        if not self.places:
            self._is_read()
            return
        number = self.book.beside(self.places[0][1], by, wrong=wrong)
        if not number:
            none = f"no more {'wrong ' if wrong else ''}samples in this direction"
            loading = "The list of samples is still loading: press the key again in a moment."
            self.console_app.say(none if self.book.outline.whole else loading, "warn")
            return
        self.book.at = number
        self.console_app.places.amend(f"{self.places[0][0]}:{number}")
        self.arrive(self.console_app.places.here.about)

    def action_turn(self) -> None:
        """Turn to the other of two samples, if there is room for only one."""
        one, other = self.views
        if self.has_class("-two"):
            if not self.has_class("-wide"):
                self.toggle_class("-turned")
            (one if other.has_focus else other).focus(scroll_visible=False)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Redraw, since the keys act on the focused text."""
        self.draw(self.console_app.state)

    def action_beside(self) -> None:
        """Lay the same sample of another job beside this one, or take it away again."""
        if not self._is_read():
            return
        job, number = self.places[0]
        if len(self.places) > 1:
            original = original_in(self.told[0].same or ())
            self.alone = self.alone or (original is not None and original.job == self.places[1][0])
            self.console_app.places.amend(f"{job}:{number}")
            self.arrive(f"{job}:{number}")
        elif self.told[0].same:
            self._choose(self.told[0])
        else:
            self.console_app.say("no other job has this sample", "warn")

    def _choose(self, told: ShownSample) -> None:
        """Ask which other job's sample to lay beside this one; a single one is taken without asking."""
        from rwkvctl.tui.shell.dialogs import Menu  # forms are not part of the first frame

        same = told.same or ()

        def chosen(place: int | None) -> None:
            if place is None:
                return
            one = same[place]
            both = f"{told.job}:{told.view.number}|{one.job}:{one.number}"
            if one.original:  # going back to the rewriting would lay it beside once more
                self.alone = False
                self.console_app.places.amend(both)
                self.arrive(both)
            else:
                self.console_app.go("sample", both)

        names = ["".join(text for text, _ in same_line(one)) for one in same]
        if len(names) == 1:
            chosen(0)
        else:
            self.console_app.push_screen(Menu("Compare with", names), chosen)

    def action_exchange(self) -> None:
        """Read what the judge was asked and said; again: leave it out."""
        if self.told and self.told[0].exchange is not None:
            self.told[0].exchange = None
            self.show()
        elif self._is_read():
            self.run_worker(self._read_exchange(self.told[0]), group="exchange", exclusive=True)

    async def _read_exchange(self, told: ShownSample) -> None:
        try:
            request = ExchangeRequest(job=told.job, number=told.view.number)
            told.exchange = await self.console_app.link.ask(request, ExchangeReply)
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")
            return
        if told in self.told:
            self.show()
            self.views[0].stand_at("judge")

    def action_prompts(self) -> None:
        """Toggle between whole prompts and their ends."""
        for told in self.told:
            told.whole_prompts = not told.whole_prompts
        self.show()

    def action_regrade(self) -> None:
        """Ask whether to grade the job again."""
        if self._is_read() and self.console_app.may_write():
            self.run_worker(self._regrade(self.told[0].job), group="regrade")

    async def _regrade(self, job: str) -> None:
        from rwkvctl.tui.shell.dialogs import Question  # forms are not part of the first frame

        if await self.console_app.push_screen_wait(Question(regrade_question(job))) and self.console_app.may_write():
            act = Act(("regrade", job), RegradeRequest(jobs=(job,)))
            await actions.do(self.console_app, [act])
            self.cached.clear()  # its samples will have other grades

    def action_filter(self) -> None:
        """Search the text, since one text has no rows to filter."""
        self.action_search()

    def action_search(self) -> None:
        """Ask what to search for; `n` and `N` repeat the search."""
        self.console_app.frame.ask("&", self.view.text, done=self._find)

    def _find(self, text: str) -> None:
        if not self.view.find(text):
            self.console_app.say(f"not found: {text}", "warn")

    def action_column(self, by: int) -> None:
        """Move sideways where lines are not folded."""
        self.view.action_sideways(by)

    def action_copy(self) -> None:
        """Choose what to copy: the part at the top of the view, or another one."""
        from rwkvctl.tui.shell.dialogs import Menu  # forms are not part of the first frame

        parts = [part for part in self.view.parts if part.raw]
        now = next((place for place, part in enumerate(parts) if part is self.view.reading), 0)

        def chosen(place: int | None) -> None:
            if place is not None:
                self.console_app.copy(parts[place].raw)

        names = [f"{part.name}, {len(part.raw):,} characters" for part in parts]
        self.console_app.push_screen(Menu("Copy", names, now), chosen)

    def action_export(self) -> None:
        """Ask for a file's name and write the page there."""
        if self._is_read():
            told = self.told[0]
            self.console_app.frame.ask("x", f"rwkvctl-sample-{told.job}-{told.view.number}.txt", done=self._write)

    def _write(self, name: str) -> None:
        from rwkvctl.tui.widgets.table_export import page_written  # not part of the first frame

        path = Path(name).expanduser().absolute()
        page_written(path, self.view.parts)
        self.console_app.say(f"written to {path}", for_s=15.0)

    def action_back(self) -> None:
        """End the search, else go back to the screen before."""
        if self.view.text:
            self.view.find("")
        else:
            self.console_app.action_history(-1)


def original_in(same: Iterable[SameView]) -> SameView | None:
    """Return the sample that was rewritten, among the same sample in other jobs."""
    return next((one for one in same if one.original), None)


def mark(one: ShownSample, other: ShownSample) -> None:
    """Record in two samples which words of their completions differ."""
    from rwkvctl.tui.widgets.word_diff import differing  # not part of the first frame

    texts = [[stage.completion for stage in told.view.stages] for told in (one, other)]
    found = [differing(a, b) for a, b in zip(*texts, strict=False)]
    one.places = [places.one for places in found]
    other.places = [places.other for places in found]


SCREEN = Sample
