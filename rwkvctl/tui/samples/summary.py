"""Summaries of a list of samples: counts, how it is narrowed, and the command that lists the same. Pure."""

import contextlib
from typing import Final

from rwkvctl.protocol.views import JobView, SampleView
from rwkvctl.text.sanitize import cell_width, safe_line
from rwkvctl.text.shell_words import as_typed, as_words
from rwkvctl.tui.samples.cache import SampleBook
from rwkvctl.tui.samples.filter import NOTHING, SampleFilter
from rwkvctl.tui.samples.outline import FILTERS
from rwkvctl.tui.widgets.strips import Pieces

SIGNS: Final = {
    "right": ("✓", "ok"), "wrong": ("✗", "bad"), "no answer": ("", "warn"), "cut off": ("", "warn"),
    "no verdict": ("◌", "warn"), "needs review": ("!", "warn"),
}  # fmt: skip


KINDS: Final = {
    "wrong": ("--wrong",), "cut off": ("--cut",), "no answer": ("--reason", "no_answer"),
    "no verdict": ("--reason", "unjudged"), "right": ("--reason", "right"),
}  # fmt: skip
"""The flags of `rwkvctl samples` that list a class."""


def about_of(job: str, narrowed: SampleFilter) -> str:
    """Return the location of a job's narrowed list: `j12 filter=wrong 'subject=high school maths'`."""
    said = {"filter": narrowed.kind, "subject": narrowed.subject, "typed": narrowed.typed}
    return as_typed([job, *(f"{name}={value}" for name, value in said.items() if value)])


def narrowed_by(about: str) -> tuple[str, SampleFilter]:
    """Return the job of a location and how its list is narrowed: the inverse of `about_of`. An operator may have typed
    it: a filter that does not exist, and words that cannot be read, narrow nothing."""
    try:
        job, *words = as_words(about) or [""]
    except ValueError:
        return about.partition(" ")[0], NOTHING
    said, name = dict[str, str](), ""
    for word in words:
        if word.partition("=")[0] in {"filter", "subject", "typed"}:
            name, _, said[name] = word.partition("=")
        elif name:  # a subject that was typed without quotes
            said[name] += f" {word}"
    kind = said.get("filter", "")
    found = SampleFilter(kind=kind if kind in FILTERS else "", subject=said.get("subject", ""))
    with contextlib.suppress(ValueError):
        found = found.typing(said.get("typed", ""))
    return job, found


def listed(book: SampleBook) -> list[str]:
    """Return how the list is narrowed, as steps of a path."""
    narrowed = book.narrowed
    return [step for step in (narrowed.subject, f"{narrowed.kind} samples".strip()) if step]


def counts_line(book: SampleBook, job: JobView | None, width: int) -> Pieces:
    """Return the number of samples in each class that is not empty, with the shown class highlighted."""
    outline = book.outline
    found: list[tuple[str, str]] = [(f" {len(outline):,} samples", "bold")]
    if not outline.whole and job is not None and job.total:
        found.append((f" of {job.total:,}", "dim"))
    for name in ("right", "wrong", "no answer", "cut off", "no verdict", "needs review"):
        count = outline.count(name)
        if count or name in {"right", "wrong"}:
            sign, role = SIGNS[name]
            chosen = name == book.narrowed.kind
            found.append((f"  {sign} {count:,} {name}".replace("   ", "  "), "accent" if chosen else role))
    if book.searching:
        found.append((f"  searching {min(book.searched, len(outline)):,}…", "info"))
    while len(found) > 3 and sum(cell_width(text) for text, _ in found) > width:
        found.pop()
    return found


def title_of(book: SampleBook) -> Pieces:
    """Return how many of the samples are shown, and why."""
    narrowed, outline = book.narrowed, book.outline
    words = [word for word in (narrowed.kind, narrowed.subject) if word]
    title: list[tuple[str, str]] = [(" · ".join(["Samples", *words]), "title")]
    if narrowed.typed:
        title.append((f"  /{narrowed.typed}", "accent"))
    if words or narrowed.typed:
        title.append((f"  {len(book.order):,} of {len(outline):,}", ""))
    return title


def command_of(book: SampleBook) -> list[str]:
    """The words of the command that lists the same, as far as it can be said."""
    narrowed = book.narrowed
    if narrowed.kind == "needs review":
        return ["rwkvctl", "review", "--job", book.job]
    words = ["rwkvctl", "samples", book.job]
    words += KINDS.get(narrowed.kind, ())
    reason = next((value for field, value, wanted in narrowed.terms if field == "reason" and wanted), "")
    words += ["--reason", reason.lstrip("=").replace(" ", "_")] if reason and "--reason" not in words else []
    return words + (["--text", narrowed.text] if narrowed.text else [])


def place_line(book: SampleBook, view: SampleView) -> Pieces:
    """Return the sample's place among those of its job, for the line under its verdict."""
    outline = book.outline
    repeat = f".{view.repeat}" if view.repeat else ""
    place = outline.place(view.number)
    name = f" ({safe_line(view.row_id)})" if view.row_id else ""
    said: list[tuple[str, str]] = [
        (f" row {view.row}{repeat}", "bold"),
        (name, "dim"),
        (f"  sample {view.number}", "dim"),
    ]
    if place < 0:
        return said
    said.append((f"  {place + 1:,} of {len(outline):,}", ""))
    if place in book.order and len(book.order) < len(outline):
        words = " ".join(word for word in (book.narrowed.kind, book.narrowed.subject, book.narrowed.typed) if word)
        said.append((f"  {safe_line(words)} {book.order.index(place) + 1:,} of {len(book.order):,}", "accent"))
    if outline.subject_of:
        said.append((f"  {safe_line(outline.subjects[outline.subject_of[place]])}", "dim"))
    return said


def regrade_question(job: str) -> list[Pieces]:
    """Return the lines of the question before a job is graded again: the effect, what is lost and the equal command."""
    return [
        [(f"Grade all samples of {job} again?", "title")],
        [("will     ", "dim"), ("grade its stored completions with the current grader; nothing is generated", "")],
        [("loses    ", "dim"), ("nothing: existing grades are kept beside the new ones", "")],
        [("same as  ", "dim"), (f"rwkvctl regrade {job}", "info")],
    ]
