"""What an operator types after `/` in a list of samples: fields are known here, texts only to the daemon. Pure.

`reason:no`, `subject:algebra`, `row:>500` (as in every list) narrow at once; everything else is one text, looked for in
prompts, completions, expected and extracted answers, in any case.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

from rwkvctl.tui.samples.outline import WORDS, Outline, both
from rwkvctl.tui.widgets.filter_query import WORDS as TERMS
from rwkvctl.tui.widgets.filter_query import found, on_field

FIELDS: Final = ("row", "reason", "subject", "number")


class SampleFilter(NamedTuple):
    """How a list of samples is narrowed: by a class, a subject, and what was typed: terms about fields, and a text."""

    kind: str = ""
    subject: str = ""
    typed: str = ""
    terms: tuple[tuple[str, str, bool], ...] = ()
    text: str = ""

    def typing(self, typed: str) -> "SampleFilter":
        """The same with another line typed. Raises ValueError with a sentence for the operator."""
        terms, text = read(typed)
        return self._replace(typed=typed.strip(), terms=terms, text=text)


NOTHING: Final = SampleFilter()


def read(typed: str) -> tuple[tuple[tuple[str, str, bool], ...], str]:
    """Terms (field, value, whether it must hold) and the text of a line."""
    terms: list[tuple[str, str, bool]] = []
    rest: list[str] = []
    for word in TERMS.findall(typed):
        wanted = not word.startswith("!")
        name, _, value = word.removeprefix("!").partition(":")
        field = found(name, FIELDS) if value and name != "re" else ""
        if field:
            terms.append((field, value.replace('"', ""), wanted))
        elif not wanted or word.startswith(("~", "re:")):
            raise ValueError(f"{word}: not a field ({', '.join(FIELDS)}); text is searched literally, without ! or ~")
        else:
            rest.append(word.replace('"', ""))
    return tuple(terms), " ".join(rest)


def mask_of(outline: Outline, narrowed: SampleFilter, hits: set[int]) -> bytes | None:
    """Which samples are shown; None for all. `hits` are the numbers of those that have the text, as far as is known."""
    masks = [outline.mask(narrowed.kind)] if narrowed.kind else []
    masks += [outline.of_subject(narrowed.subject)] if narrowed.subject else []
    masks += [of_term(outline, *term) for term in narrowed.terms]
    masks += [outline.among(hits)] if narrowed.text else []
    return reduce(both, masks) if masks else None


def of_term(outline: Outline, field: str, value: str, wanted: bool) -> bytes:
    """Which samples a term about a field is true of."""
    test = on_field(lambda known: known, value)
    if field == "reason":
        codes = bytes(test("", word) is wanted for word in WORDS)
        return bytes(outline.codes.translate(codes.ljust(256, b"\0")))
    if field == "subject":
        known = [test("", name) is wanted for name in outline.subjects]
        return bytes(known[place] for place in outline.subject_of)
    values: Sequence[int] = outline.rows if field == "row" else outline.numbers
    return bytes(test("", number) is wanted for number in values)
