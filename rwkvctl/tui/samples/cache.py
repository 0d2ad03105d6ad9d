"""The samples of the jobs that are looked through, kept while one goes from the list to a sample and back.

The outline says who is right or wrong and comes whole; texts come in pages, for what is on the screen and near it.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from rwkvctl.protocol.replies import OutlineReply, SamplesReply
from rwkvctl.protocol.requests import OutlineRequest, SamplesRequest
from rwkvctl.protocol.views import SampleView
from rwkvctl.tui.daemon.client import Link
from rwkvctl.tui.samples.filter import NOTHING, SampleFilter, mask_of
from rwkvctl.tui.samples.outline import Outline, mask_all, nearest, places

BOOKS: Final = 4
FIRST: Final = 2_000
"""Samples of the first page: enough to fill a screen, and there at once."""

PAGE: Final = 25_000
SEARCHED: Final = (500, 5_000, 1_000_000)
"""Samples that the requests of a search look at: the first answers soon, the last as the time allows."""

TAIL: Final = 400
"""Characters of each text that a list is made of."""

TEXTS_KEPT: Final = 3_000
TEXTS_AT_ONCE: Final = 200
OLD_S: Final = 10.0
REST: Final = 20.0
"""Of a job that grows, the outline is read again after so many times as long as it took."""


@dataclass
class SampleBook:
    """One job's samples: the outline, what is shown of it in which order, texts, and the sample that was looked at.
    `problem`: why the outline could not be read."""

    job: str
    outline: Outline = field(default_factory=Outline)
    narrowed: SampleFilter = NOTHING
    hits: set[int] = field(default_factory=set)
    searched: int = 0
    searching: str = ""
    texts: dict[int, SampleView] = field(default_factory=dict)
    absent: set[int] = field(default_factory=set)
    order: list[int] = field(default_factory=list)
    at: int = 0
    with_subjects: bool = False
    read_at: float = 0.0
    took_s: float = 0.0
    problem: str = ""

    @property
    def mask(self) -> bytes | None:
        """Which samples are shown; None for all."""
        return mask_of(self.outline, self.narrowed, self.hits)

    def narrow(self, narrowed: SampleFilter) -> None:
        """Narrow what is shown; another text is still to be looked for."""
        if narrowed.text != self.narrowed.text:
            self.hits, self.searched, self.searching = set(), 0, narrowed.text
        self.narrowed = narrowed
        self.arrange()

    def arrange(self) -> None:
        """Show what is wanted, in order of row and repeat."""
        mask = self.mask
        self.order = list(range(len(self.outline))) if mask is None else places(mask)

    def keep(self, items: Iterable[SampleView]) -> None:
        """Keep texts; the oldest go when there are too many."""
        self.texts |= {item.number: item for item in items}
        for number in list(self.texts)[: max(0, len(self.texts) - TEXTS_KEPT)]:
            del self.texts[number]

    def beside(self, number: int, by: int, *, wrong: bool = False) -> int:
        """The number of the next or previous sample of what is shown; `wrong`: of those that count as wrong. 0 if there
        is none."""
        place = self.outline.place(number)
        order = self.order if place in self.order else range(len(self.outline))
        if place < 0 or not len(order):
            return 0
        mask = self.outline.mask("wrong") if wrong else mask_all(self.outline)
        found = nearest(order, order.index(place), by, mask)
        return self.outline.numbers[order[found]] if found >= 0 else 0

    @property
    def old(self) -> bool:
        """Return whether it was read a while ago: the job may have been graded anew since."""
        return self.outline.whole and time.monotonic() > self.read_at + OLD_S

    def due(self, done: int) -> bool:
        """Return whether the job has more samples by now, and it is time to look."""
        known = self.outline.whole and len(self.outline) < done
        return known and time.monotonic() > self.read_at + max(2.0, REST * self.took_s)

    async def read(self, link: Link, told: Callable[[], None], *, again: bool = False, subjects: bool = False) -> None:
        """Read the outline, or what is left of it; `again`: anew, and replace it when it is whole. `told` is called for
        every page that can be shown. Raises RwkvctlError."""
        started, self.problem = time.monotonic(), ""
        fresh = again or (subjects and not self.with_subjects)
        outline = Outline() if fresh else self.outline
        while not outline.whole:
            request = OutlineRequest(
                job=self.job, after=outline.next, limit=PAGE if outline.begun else FIRST,
                subjects=subjects or self.with_subjects,
            )  # fmt: skip
            last = outline.take(await link.ask(request, OutlineReply))
            if last or not fresh or not self.outline.begun:
                if outline.numbers == self.outline.numbers and outline.codes != self.outline.codes:
                    self.texts.clear()  # graded anew
                self.outline, self.with_subjects = outline, request.subjects
                self.arrange()
                told()
        self.read_at = time.monotonic()
        self.took_s = self.read_at - started

    async def search(self, link: Link, told: Callable[[], None]) -> None:
        """Look for the text that is wanted, page by page. Raises RwkvctlError."""
        text, after = self.narrowed.text, -1
        self.hits, self.searched, self.searching = set(), 0, text
        for turn in range(1 << 30):
            limit = SEARCHED[min(turn, len(SEARCHED) - 1)]
            reply = await link.ask(OutlineRequest(job=self.job, after=after, limit=limit, text=text), OutlineReply)
            self.hits |= set(reply.numbers)
            self.searched += reply.looked
            after = reply.next
            ended = after < 0 and not reply.looking
            if ended:
                self.searching = ""
            self.arrange()
            told()
            if ended:
                return

    async def read_texts(self, link: Link, numbers: Iterable[int]) -> None:
        """Fetch the texts of some samples for a list. Raises RwkvctlError."""
        wanted = tuple(numbers)
        request = SamplesRequest(job=self.job, numbers=wanted, tail=TAIL, limit=len(wanted))
        items = (await link.ask(request, SamplesReply)).items
        self.keep(items)
        self.absent |= set(wanted) - {item.number for item in items}  # graded anew since: not to be asked for ever


class SampleBooks:
    """The books of the jobs that were looked through last."""

    def __init__(self) -> None:
        self.books: dict[str, SampleBook] = {}

    def of(self, job: str) -> SampleBook:
        """A job's book, opened if need be; the one longest not asked for is closed."""
        book = self.books.pop(job, None) or SampleBook(job)
        self.books[job] = book
        for old in list(self.books)[: max(0, len(self.books) - BOOKS)]:
            del self.books[old]
        return book
