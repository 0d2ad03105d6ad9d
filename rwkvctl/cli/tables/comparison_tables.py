"""Comparisons as `compare` and `gate` show them."""

from collections.abc import Iterable, Sequence
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.render import Cell, Column, Role, Table, joined
from rwkvctl.cli.tables.core_tables import INTERVAL, ends
from rwkvctl.text.quantities import Amount, count

SIGNS: Final[dict[str, tuple[str, Role]]] = {
    "better": ("▲", "ok"), "worse": ("▼", "worse"), "not comparable": ("~", "dim"), "no difference shown": ("=", ""),
}  # fmt: skip
"""The mark of a verdict."""

WORDS: Final = {"no difference shown": "inconclusive"}
"""Verdicts that people read by another word than the one in JSON."""

NAMED: Final = 8
"""Benchmarks that a note names before it only counts them."""


def body(
    a: str, b: str, benchmarks: Sequence[str], kinds: Sequence[str], *, alpha: float, force: bool
) -> dict[str, object]:
    """Return the request. Raises UsageError if alpha is not between 0 and 1."""
    if not 0 < alpha < 1:
        raise UsageError(f"--alpha must lie between 0 and 1, not {alpha:g}.")
    return {"a": a, "b": b, "benchmarks": list(benchmarks), "kinds": list(kinds), "alpha": alpha, "force": force}


def headline(reply: Record) -> list[str]:
    """`B against A: 3 better, 1 worse, 20 inconclusive`."""
    found = (
        joined(f"{number} {WORDS.get(verdict, verdict)}" for verdict, number in reply["counts"].items())
        or "no benchmark in common"
    )
    return [f"B = {reply['b']} against A = {reply['a']}: {found}", ""]


def table(items: Iterable[Record]) -> Table:
    """Return a table of comparisons, one row per benchmark and kind."""
    columns = [
        Column("BENCHMARK", cut="middle"), Column("KIND", cut="middle"), Column("VERDICT"),
        Column("METRIC", wide=True), Column("A", right=True), Column("B", right=True), Column("B-A", right=True),
        *INTERVAL, Column("ONLY A", right=True, wide=True),
        Column("ONLY B", right=True, wide=True),
        Column("N", right=True), Column("P", right=True, wide=True), Column("P HOLM", right=True),
        Column("TEST", wide=True), Column("JOBS", wide=True), Column("WHY", cut="end"),
    ]  # fmt: skip
    return Table(columns, [line(item) for item in items], "no scores to compare", "comparison")


def line(item: Record) -> list[str | Cell]:
    """Return the cells of one comparison for `table`."""
    verdict, unit = item["verdict"], item.get("unit", "share")
    difference = item.get("difference") or {}
    compared = item.get("p") is not None
    paired = compared and not item.get("unpaired")
    mark, role = SIGNS[verdict]
    marked = " (unpaired)" * bool(item.get("unpaired") and compared) + " (forced)" * bool(item.get("forced"))
    return [
        item["benchmark"],
        item["kind"],
        Cell(f"{mark} {WORDS.get(verdict, verdict)}{marked}", role, verdict + marked),
        item.get("metric", ""),
        number(item.get("a"), unit),
        number(item.get("b"), unit),
        number(difference.get("value"), unit, signed=True),
        interval(difference, unit),
        *ends(difference),
        count(item.get("only_a", 0)) if paired else "–",
        count(item.get("only_b", 0)) if paired else "–",
        count(item.get("rows", 0)) if compared else "–",
        probability(item.get("p")),
        probability(item.get("p_holm")),
        item.get("test", ""),
        " ".join(filter(None, (item.get("job_a", ""), item.get("job_b", "")))),
        item.get("why", "") or caveats(item),
    ]


def number(value: float | None, unit: str, *, signed: bool = False) -> str:
    """Return a share in percent, any other value with three decimals; a dash if it is missing."""
    if value is None:
        return "–"
    scaled, digits = (100 * value, 1) if unit == "share" else (value, 3)
    return Amount(f"{scaled:+.{digits}f}" if signed else f"{scaled:.{digits}f}", value)


def interval(difference: Record, unit: str) -> str:
    """The 95 % interval of a difference."""
    low, high = difference.get("ci_low"), difference.get("ci_high")
    if low is None or high is None:
        return "–"
    return f"[{number(low, unit, signed=True)}, {number(high, unit, signed=True)}]"


def probability(p: float | None) -> str:
    """A p value, never as a plain zero."""
    if p is None:
        return "–"
    return Amount(f"{p:.4f}" if p >= 0.0001 else "<.0001", p)


def caveats(item: Record) -> str:
    """Return what must be known with a comparison: that it was not paired, and what differed between the sides of a
    forced one."""
    left_out = item.get("left_out", 0)
    unpaired = "not paired: one side has no samples" if item.get("unpaired") else ""
    parts = [unpaired, *item.get("differs", ()), f"{left_out} rows are left out" if left_out else ""]
    return "; ".join(filter(None, parts))


def in_words(item: Record) -> str:
    """`-3.2 [-4.6, -1.7], p .0002 after Holm`."""
    unit, difference = item.get("unit", "share"), item.get("difference") or {}
    value = number(difference.get("value"), unit, signed=True)
    unpaired = ", unpaired" if item.get("unpaired") else ""
    return f"{value} {interval(difference, unit)}, p {probability(item.get('p_holm'))} after Holm{unpaired}"


def flips(items: Iterable[Record]) -> Table:
    """Rows on which one side did better; each cursor goes to `rwkvctl samples JOB --after CURSOR --limit 1`."""
    columns = [
        Column("BENCHMARK", cut="middle"), Column("ROW", right=True), Column("A"), Column("B"),
        Column("EXPECTED", cut="end"), Column("A SAYS", cut="end"), Column("B SAYS", cut="end"),
        Column("JOB A", wide=True), Column("JOB B", wide=True), Column("SAMPLES", wide=True),
        Column("AFTER", right=True), Column("ROW ID", wide=True),
    ]  # fmt: skip
    compared = list(items)
    rows = [flip(item, one) for item in compared for one in item.get("flips", ())]
    paired = any(item.get("p") is not None and not item.get("unpaired") for item in compared)
    none = "on no row is one side alone better" if paired else "nothing was paired row by row"
    return Table(columns, rows, f"no flips: {none}", "flip")


def flip(item: Record, one: Record) -> list[str | Cell]:
    """Return the cells of one row of `flips`: a row of the benchmark on which one side did better."""
    better_a = (one["value_a"] > one["value_b"]) != item.get("lower_is_better", False)
    a, b = (mark(one[name], better) for name, better in (("value_a", better_a), ("value_b", not better_a)))
    said = ["nothing" if one.get(name) is None else str(one[name]) for name in ("answer_a", "answer_b")]
    samples = f"{one['sample_a']} {one['sample_b']}"
    jobs = (item.get("job_a", ""), item.get("job_b", ""))
    last = [samples, str(one["after"]), one.get("row_id", "")]
    return [item["benchmark"], str(one["row"]), a, b, one.get("expected", ""), *said, *jobs, *last]


def mark(value: float, better: bool) -> Cell:
    """A row's value: a mark where it is right or wrong, else a number."""
    text = {0.0: "✗", 1.0: "✓"}.get(value, f"{value:.3g}")
    return Cell(text, "ok" if better else "bad", f"{value:g}")


def explain(context: Context, reply: Record) -> None:
    """Print below the table the notes, the benchmarks that only one side has, and how to see the samples of a row."""
    noted = sorted({text for item in reply["items"] for text in item.get("noted", ())})
    for text in noted[:NAMED]:
        context.say(f"note: {text}")
    for side, other, keys in (("A", "B", reply.get("only_a", ())), ("B", "A", reply.get("only_b", ()))):
        if keys:
            more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
            context.say(f"only {side} has a score, {other} has none: {', '.join(keys[:NAMED])}{more}")
    if any(item.get("flips") for item in reply["items"]):
        context.say("see a row's samples: rwkvctl samples JOB --after AFTER --limit 1")
