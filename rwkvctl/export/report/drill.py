"""Select the samples of a report: wrong ones first, a limited number per run, and texts cut to the room there is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rwkvctl.cli import long_reads
from rwkvctl.cli.client import Client, Record
from rwkvctl.export.report.embedding import embedded
from rwkvctl.export.report.gather import Report
from rwkvctl.text.sanitize import safe_line, safe_text

ROOM: Final = 24 * 2**20
"""Bytes that all samples of a report take together, at most."""

LONGEST: Final = 4000
LEAST: Final = 300
"""Characters of a sample's texts: never more, and rather fewer samples than less."""

FRAME: Final = 160
"""Bytes of a sample besides its texts."""

SHORT: Final = 120
"""Characters of an answer."""


class Plan(NamedTuple):
    """How many samples a run has in the report, and how many bytes each may take."""

    samples: int
    room: int


def plan(sizes: Sequence[int], wanted: int) -> Plan:
    """Return how many samples fit: as many as wanted, with shorter texts if they are many, and fewer if that is not
    enough."""
    count = wanted
    while count and sum(min(size, count) for size in sizes) * (LEAST + FRAME) > ROOM:
        count -= 1
    whole = sum(min(size, count) for size in sizes)
    return Plan(count, min(ROOM // whole, LONGEST + FRAME) if whole else 0)


def samples_of(client: Client, scores: Mapping[str, Record], plan: Plan, report: Report) -> dict[str, list[list[Any]]]:
    """The samples of each run, as the page has them."""
    found: dict[str, list[list[Any]]] = {}
    for number, job in enumerate(scores):
        report("samples", number, len(scores))
        found[job] = [fitted(sample, plan.room) for sample in wrong_first(client, job, plan)] if plan.samples else []
    return found


def wrong_first(client: Client, job: str, plan: Plan) -> Iterator[Record]:
    """The first wrong samples of a run, and where there are too few of them, the first others."""
    wrong = long_reads.samples(client, job, {"wrong": True, "tail": plan.room}, plan.samples).value["items"]
    yield from wrong
    if len(wrong) < plan.samples:
        known = {sample["number"] for sample in wrong}
        first = long_reads.samples(client, job, {"tail": plan.room}, plan.samples).value["items"]
        yield from [sample for sample in first if sample["number"] not in known][: plan.samples - len(wrong)]


def fitted(sample: Record, room: int) -> list[Any]:
    """Return a sample in at most `room` bytes as embedded; prompts and completions keep their end, which has the
    answer."""
    length, shown = room, safely(sample, room)
    while len(embedded(shown).encode()) > room and length > 1:
        length //= 2
        shown = shortened(shown, length)
    return shown


def safely(sample: Record, length: int) -> list[Any]:
    """Return row, repeat, value, reason, expected, extracted, detail, and of each stage its name, prompt, completion
    and what ended it. Every text is made safe for display."""
    extracted = sample.get("extracted")
    return [
        sample["row"],
        sample["repeat"],
        sample.get("value"),
        safe_line(beginning(sample["reason"], length)),
        safe_line(beginning(sample.get("expected", ""), length)),
        None if extracted is None else safe_line(beginning(extracted, length)),
        safe_line(beginning(sample.get("detail", ""), length)),
        [
            [safe_line(stage["stage"]), safe_text(end(stage["prompt"], length)),
             safe_text(end(stage["completion"], length)), safe_line(stage.get("stop", ""))]
            for stage in sample.get("stages", ())
        ],
    ]  # fmt: skip


def shortened(shown: list[Any], length: int) -> list[Any]:
    """Return the sample with shorter texts: of single-line fields the beginning, of prompts and completions the end."""
    row, repeat, value, *words, stages = shown
    share = length // max(1, 2 * len(stages))
    words = [None if word is None else beginning(word, length) for word in words]
    cut = [[name, end(prompt, share), end(completion, share), stop] for name, prompt, completion, stop in stages]
    return [row, repeat, value, *words, cut]


def beginning(text: str, length: int) -> str:
    """Return at most the first `length` characters of a text (SHORT at most); a cut one ends in an ellipsis."""
    most = min(SHORT, length)
    return text if len(text) <= most else text[: most - 1] + "…"


def end(text: str, length: int) -> str:
    """Return at most the last `length` characters of a text; a cut one begins with an ellipsis."""
    return text if len(text) <= length else "…" + text[len(text) - length + 1 :]
