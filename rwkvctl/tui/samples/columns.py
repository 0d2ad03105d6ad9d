"""Samples as rows of a list: what is known at once, and what is added when their texts have been read. Pure."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from rwkvctl.cli.render import Cell, Role
from rwkvctl.protocol.views import SampleView
from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.samples.cache import TAIL, SampleBook
from rwkvctl.tui.samples.outline import OTHER, WORDS, SampleGroup
from rwkvctl.tui.widgets.strips import Pieces, wrapped
from rwkvctl.tui.widgets.table_columns import Column

SHOWN: Final = 200
"""Characters of a text that a cell is made of."""

MARKS: Final[tuple[tuple[str, Role], ...]] = (
    ("✓", "ok"), ("✗", "bad"), ("✗", "bad"), ("✗", "bad"), ("◌", "info"), ("–", "warn"), ("·", "dim"), ("–", "warn"),
    ("–", "warn"), ("·", "ok"), ("?", "warn"),
)  # fmt: skip
"""A sign and a role for every code of `outline.REASONS`."""

ASKED: Final = re.compile(r"(?:\A|\n)\s*(?:User|Human|Q|Question|Problem|问题|用户)\s*[:：]\s*")
ANSWERED: Final = re.compile(r"\n+\s*(?:Assistant|A|Answer|Solution|Response)\s*[:：]")


class SampleRow(NamedTuple):
    """One sample; `view` is None until its texts have been read."""

    number: int
    row: int
    repeat: int
    code: int
    cut: bool
    doubted: bool
    subject: str
    view: SampleView | None


class SampleRows(Sequence[SampleRow]):
    """All samples of a book in order of row and repeat; a row is made when it is accessed."""

    def __init__(self, book: SampleBook) -> None:
        self.book = book

    def __len__(self) -> int:
        return len(self.book.outline)

    def __getitem__(self, place: int) -> SampleRow:  # type: ignore[override]  # nobody takes a slice
        outline = self.book.outline
        number = outline.numbers[place]
        subject = outline.subjects[outline.subject_of[place]] if outline.subject_of else ""
        return SampleRow(
            number, outline.rows[place], outline.repeats[place], outline.codes[place], bool(outline.cut[place]),
            bool(outline.doubted[place]), subject, self.book.texts.get(number),
        )  # fmt: skip


def name(row: SampleRow) -> str:
    """Return a sample's row number, followed by `.REPEAT` unless the repeat is 0."""
    return f"{row.row}.{row.repeat}" if row.repeat else str(row.row)


def verdict(row: SampleRow) -> Cell:
    """Return the sign of the verdict, or the value if it lies between 0 and 1; followed by `!` if the checker doubts
    it."""
    mark, role = MARKS[min(row.code, OTHER)]
    value = row.view.value if row.view else None
    if value is not None and 0 < value < 1:
        mark, role = f"{value:.2f}"[1:], "warn"
    return Cell(mark + "!" * row.doubted, role, WORDS[min(row.code, OTHER)])


def reason(row: SampleRow) -> str:
    """Return why the sample has its verdict: the words for its reason code, or the text of its view."""
    return WORDS[row.code] if row.code < OTHER else row.view.reason if row.view else WORDS[OTHER]


def extracted(row: SampleRow) -> str | Cell:
    """Return the extracted answer, cut to SHOWN characters; empty until the texts have been read."""
    if row.view is None:
        return ""
    return Cell("nothing", "dim") if row.view.extracted is None else row.view.extracted.strip()[:SHOWN]


def expected(row: SampleRow) -> str:
    """Return the beginning of the expected answer; empty until the sample has been read."""
    return row.view.expected.strip()[:SHOWN] if row.view else ""


def tokens(row: SampleRow) -> int | None:
    """Return the number of tokens generated in all stages."""
    return sum(stage.generated_tokens for stage in row.view.stages) if row.view else None


def stop(row: SampleRow) -> Cell:
    """Return how generation ended; a cut at the token limit is known before the texts."""
    if row.cut:
        return Cell("cut off", "warn")
    return Cell(row.view.stages[-1].stop.removeprefix("stop_") if row.view and row.view.stages else "", "dim")


def question(row: SampleRow) -> str:
    """Return the beginning of the question, without the few-shot examples before it."""
    return asked(row.view.stages[0].prompt)[:SHOWN] if row.view and row.view.stages else ""


def asked(prompt: str) -> str:
    """Return the last question of a prompt, or of the end of one."""
    starts = [match.end() for match in ASKED.finditer(prompt)]
    rest = prompt[starts[-1] :] if starts else prompt
    end = ANSWERED.search(rest)
    return " ".join((rest[: end.start()] if end else rest).split())


def spelt(row: SampleRow) -> str:
    """Return the number of generated tokens with separators; empty until the sample has been read."""
    count = tokens(row)
    return "" if count is None else f"{count:,}"


ROW: Final[Column[SampleRow]] = Column("ROW", name, 7, least=5, right=True, value=lambda row: row.row)
VERDICT: Final[Column[SampleRow]] = Column(" ", verdict, 3, value=lambda row: row.code, name="verdict")
EXTRACTED: Final[Column[SampleRow]] = Column("EXTRACTED", extracted, 18, least=10, grow=1)
EXPECTED: Final[Column[SampleRow]] = Column("EXPECTED", expected, 18, least=9, grow=1)
REASON: Final[Column[SampleRow]] = Column("REASON", reason, 9, rank=1)
TOKENS: Final[Column[SampleRow]] = Column("TOKENS", spelt, 7, least=6, right=True, rank=3, value=tokens)
STOP: Final[Column[SampleRow]] = Column("STOP", stop, 8, least=7, rank=2)
SUBJECT: Final[Column[SampleRow]] = Column("SUBJECT", lambda row: row.subject, 16, least=10, rank=4)
QUESTION: Final[Column[SampleRow]] = Column("QUESTION", question, 30, least=16, grow=4, rank=5)

COLUMNS: Final = (ROW, VERDICT, EXTRACTED, EXPECTED, REASON, TOKENS, STOP, SUBJECT, QUESTION)
SORTED_BY: Final = frozenset({"row", "verdict", "reason", "subject"})
"""Columns that are known of every sample; the others only of those whose texts have come."""


def right_share(one: SampleGroup) -> str:
    """Return the group's share of right samples in percent; `–` if it has no verdicts."""
    return "–" if one.share is None else f"{100 * one.share:.1f}"


GROUPS: Final[tuple[Column[SampleGroup], ...]] = (
    Column("GROUP", lambda one: Cell(one.name or "(none)", "bold"), 30, least=16, grow=1),
    Column("RIGHT %", right_share, 8, value=lambda one: one.share, right=True, name="right-share"),
    Column("SAMPLES", lambda one: f"{one.samples:,}", 8, value=lambda one: one.samples, right=True),
    Column("RIGHT", lambda one: f"{one.right:,}", 8, value=lambda one: one.right, right=True),
    Column("WRONG", lambda one: f"{one.wrong:,}", 8, value=lambda one: one.wrong, right=True),
    Column("NO VERDICT", lambda one: f"{one.no_verdict:,}", 10, value=lambda one: one.no_verdict, right=True, rank=1),
)


def preview(row: SampleRow, width: int, most: int) -> list[Pieces]:
    """Return a sample in a few lines: its question, the end of its answer, and the reason for its verdict."""
    if row.view is None:
        return []
    last = row.view.stages[-1].completion.strip() if row.view.stages else ""
    why = " · ".join(word for word in (reason(row), row.view.route and f"by {row.view.route}", row.view.detail) if word)
    asks = wrapped([(" Q ", "dim"), (safe_line(question(row)), "")], width)[: most // 2]
    says = wrapped([(safe_line(" ".join(last[-TAIL:].split())), "")], max(10, width - 3))[-(most - len(asks) - 1) :]
    answer: list[Pieces] = [[(" A " if not at else "   ", "dim"), *piece] for at, piece in enumerate(says)]
    return [*asks, *answer, [(" = ", "dim"), (safe_line(why), "")]]
