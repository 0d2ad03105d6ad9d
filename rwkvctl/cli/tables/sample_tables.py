"""Tables of samples: counts by reason, the same sample in other jobs, and the calls of the judge."""

from collections.abc import Iterable, Iterator, Mapping

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Table, amount, share
from rwkvctl.text.quantities import count, percent


def outlined(reply: Record) -> Iterator[tuple[str, str]]:
    """Yield the subject (empty if there are none) and the reason of each sample of an outline."""
    reasons, names = reply["reasons"], reply.get("subjects", ())
    places = reply.get("subject_of") or [None] * len(reply["verdicts"])
    for letter, place in zip(reply["verdicts"], places, strict=True):
        yield "" if place is None else names[place], reasons[ord(letter) - ord("a")]


def sample_counts(counts: Mapping[tuple[str, str], int]) -> Table:
    """Samples by subject and reason: a line a subject, the one with the least share right first."""
    reasons = sorted({reason for _, reason in counts}, key=lambda reason: (reason != "right", reason))
    sums = {name: {reason: counts.get((name, reason), 0) for reason in reasons} for name, _ in counts}
    order = sorted(sums, key=lambda name: (share(sums[name].get("right", 0), sum(sums[name].values())), name))
    columns = [Column("SUBJECT"), Column("SAMPLES", right=True), Column("RIGHT %", right=True, name="right share")]
    rows: list[list[str | Cell]] = []
    for name in order:
        whole = sum(sums[name].values())
        cells = [count(sums[name][reason]) for reason in reasons]
        rows.append([name or "all", count(whole), percent(share(sums[name].get("right", 0), whole)), *cells])
    columns += [Column(reason.upper().replace("_", " "), right=True) for reason in reasons]
    return Table(columns, rows, "no samples")


def same_samples(items: Iterable[Record]) -> Table:
    """Return a table of the same sample in other jobs, with its verdict in each."""
    columns = [Column("JOB"), Column("MODEL", cut="model"), Column("KIND"), Column("VERSION", right=True),
               Column("SAMPLE", right=True), Column("VALUE", right=True), Column("REASON"),
               Column("EXTRACTED", cut="end")]  # fmt: skip
    rows: list[list[str | Cell]] = []
    for item in items:
        value = amount(item.get("value"), "g")
        extracted = item.get("extracted")
        rows.append([Cell(item["job"], "bold"), item["model"], item["kind"], str(item["version"]), str(item["number"]),
                     value, item["reason"], "" if extracted is None else extracted])  # fmt: skip
    return Table(columns, rows, "no other job has this sample")


def exchange(reply: Record) -> Table:
    """Return a table of the messages to the judge and its replies."""
    rows: list[list[str | Cell]] = [
        [message.get("role", ""), message.get("content", "")] for asked in reply.get("asked", ()) for message in asked
    ]
    rows += [["reply", text] for text in reply.get("said", {}).get("replies", ())]
    rows += [["problem", reply["problem"]]] if reply.get("problem") else []
    return Table([Column("WHO"), Column("SAID")], rows, "no judge calls for this sample")
