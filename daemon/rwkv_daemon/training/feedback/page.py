"""A feedback as a page of Markdown, which reads well on a terminal too. Texts of models and rows stand in code spans,
where no viewer takes them for markup. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rwkvctl.protocol.training.feedback import BenchmarkFeedback, ErrorSample, FeedbackReply
from rwkvctl.protocol.training.watches import FINAL_STEP
from rwkvctl.protocol.views import ComparisonView, MetricView
from rwkvctl.text.quantities import several
from rwkvctl.text.sanitize import cell_width, fit, safe_line

LONGEST_TEXT: Final = 80
LONGEST_WHY: Final = 400
MARKUP: Final = re.compile(r"([\\`*{}\[\]<>#|~$&!]|(?<![^\W_])_|_(?![^\W_])|^[-+](?=[\s-]|$))")
"""What a viewer takes for markup; between two letters or digits `_` is none, and a sign of a list only at the start."""
NUMBERED: Final = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
"""What a viewer takes for the number of an item in a list."""
WORDS: Final = {"no difference shown": "inconclusive", "not comparable": "undecided"}
"""Verdicts that people read by another word than the one in JSON, as `compare` and `gate` say them."""
ORDER: Final = ("better", "worse", "inconclusive", "undecided")
MOST_CHECKPOINTS: Final = 30
"""Checkpoints of the overview, the last ones and the best."""
NONE: Final = "–"


def page(found: FeedbackReply) -> str:
    """Return a feedback as Markdown, ended by one newline. Texts of models and rows in it are no markup."""
    return "\n".join(lines(found)).rstrip("\n") + "\n"


def lines(found: FeedbackReply) -> Iterator[str]:
    """Yield the lines of the page."""
    one = found.checkpoint
    step = f", {step_in_words(one.step)}" if one.step is not None else ""
    yield f"# {text(one.name)}{step}, of {found.watch} ({text(found.name)})"
    yield ""
    yield from summary(found)
    yield from missing(found)
    if found.items:
        yield from ("## Scores", "", *scores(found), "", *remarks(found))
        if any(item.baseline or item.best for item in found.items):
            yield from (*HOW, "")
    yield from checkpoints(found)
    yield from errors(found)


HOW: Final = (
    (
        "Differences of shares are in points. p is of a paired test, adjusted over the benchmarks (Holm): below 0.05 "
        "the score is better or worse, else the comparison is inconclusive."
    ),
    "The best so far is found with p adjusted for the number of checkpoints before it.",
)


def step_in_words(step: int) -> str:
    return "the last step" if step == FINAL_STEP else f"step {step:,}"


def summary(found: FeedbackReply) -> Iterator[str]:
    """Yield what there is to say in a few sentences."""
    one = found.checkpoint
    yield f"- Scores of {found.done} of {several(found.asked, 'job')}. Model: {text(one.model or 'none yet')}"
    if found.as_of:
        suite = f", suite {text(found.suite)}" if found.suite else ""
        measured = several(len(found.checkpoints), "checkpoint")
        yield f"- As of {text(found.as_of)} on {text(found.node)}{suite}; measured: {measured}."
    if found.part != "all":
        yield f"- {PARTS[found.part]}"
    if found.best:
        itself = "this checkpoint" if found.best == one.name and found.best_model == one.model else text(found.best)
        yield f"- Best so far: {itself}: {text(found.best_why)}."
    else:
        yield f"- Best so far: not known: {text(found.best_why)}."
    if found.baseline:
        verdicts = in_words(counts(item.baseline for item in found.items))
        yield f"- Against the baseline {text(found.baseline)}: {verdicts}."
    else:
        yield "- No baseline is pinned for it: `rwkvctl baseline pin MODEL --for PATTERN`."
    against_best = [item.best for item in found.items]
    if any(against_best):
        yield f"- Against the best so far: {in_words(counts(against_best))}."
    for item in found.items:
        if item.collapsed:
            yield f"- **Collapsed**: {title(item)}: {text(fit(safe_line(item.collapsed), LONGEST_WHY))}."
    yield ""


PARTS: Final = {
    "search": "All values are of the 40 % of the rows that are shown; the others are held back.",
    "report": "All values are of the 60 % of the rows that are held back; the best so far was found on the others.",
}


def counts(compared: Iterable[ComparisonView | None]) -> dict[str, int]:
    """Return how many comparisons have each verdict."""
    words = [word(one) for one in compared if one is not None]
    return {each: words.count(each) for each in ORDER if each in words}


def in_words(counted: Mapping[str, int]) -> str:
    """`2 better, 1 worse, 17 inconclusive`."""
    return ", ".join(f"{count} {each}" for each, count in counted.items()) or "nothing to compare"


def word(one: ComparisonView) -> str:
    return WORDS.get(one.verdict, one.verdict)


def missing(found: FeedbackReply) -> Iterator[str]:
    """Yield what was not measured, and why."""
    if not found.missing and not found.left_out:
        return
    yield from ("## Not measured", "")
    for job in found.missing:
        why = f": {text(fit(safe_line(job.why), LONGEST_WHY))}" if job.why else ""
        yield f"- {text(' '.join(filter(None, (job.benchmark, job.kind))) or 'a job')} ({job.job}, {job.state}){why}"
    if found.left_out:
        yield f"- {text(fit(safe_line(found.left_out), LONGEST_WHY))}"
    yield ""


def scores(found: FeedbackReply) -> list[str]:
    """Return the table of all scores."""
    heads = ["benchmark", "value", "95 %", "rows", "cut off", "no answer"]
    heads += ["against baseline", "p"] if found.baseline else []
    has_best = any(item.best for item in found.items)
    heads += ["against best", "p"] if has_best else []
    cells = [heads]
    for item in found.items:
        line = [title(item), shown(item.value), interval(item.value), f"{item.rows:,}", f"{item.truncated:,}",
                f"{item.no_answer:,}"]  # fmt: skip
        line += compared(item.baseline) if found.baseline else []
        line += compared(item.best) if has_best else []
        cells.append(line)
    return table(cells)


def compared(one: ComparisonView | None) -> list[str]:
    """Return the cells of a comparison: the difference with the verdict, and the adjusted p."""
    if one is None:
        return [NONE, NONE]
    if one.difference is None or one.difference.value is None:
        return [word(one), NONE]
    unpaired = " (not paired)" if one.unpaired else ""
    return [f"{number(one.difference.value, one.unit, signed=True)} {word(one)}{unpaired}", probability(one.p_holm)]


def probability(p: float | None) -> str:
    """Return a p value, never as a plain zero."""
    return NONE if p is None else f"{p:.4f}" if p >= 0.0001 else "below .0001"


def remarks(found: FeedbackReply) -> Iterator[str]:
    """Yield why values and comparisons are missing, and what qualifies scores."""
    said = []
    for item in found.items:
        said += [(item, item.why_null)] if item.why_null else []
        sides = ((found.baseline, item.baseline), (found.best, item.best))
        said += [(item, f"not compared with {side}: {one.why}") for side, one in sides if one and one.why]
        said += [(item, warning) for warning in item.warnings]
    for item, why in said:
        yield f"- {title(item)}: {text(fit(safe_line(why), LONGEST_WHY))}"
    if said:
        yield ""


def errors(found: FeedbackReply) -> Iterator[str]:
    """Yield the error samples of each benchmark."""
    if not any(item.errors for item in found.items):
        return
    yield from ("## What it gets wrong", "")
    for item in found.items:
        if not item.errors:
            continue
        lost = f", {item.lost:,} of them better in {text(item.lost_against)}" if item.lost_against else ""
        yield from (f"### {title(item)}: {item.wrong:,} of {several(item.rows, 'row')} not right{lost}", "")
        for one in item.errors:
            yield from error(one, item.lost_against)
        yield ""


def error(one: ErrorSample, lost_against: str) -> Iterator[str]:
    """Yield the lines of one error sample."""
    what = [text(one.reason.replace("_", " ")), *([f"subject {code(one.subject)}"] if one.subject else [])]
    what += ["cut off at the token limit"] if one.cut else []
    what += [f"better in {text(lost_against)}"] if one.was_right else []
    name = f" {code(one.row_id)}" if one.row_id else ""
    texts = [f"asked {code(one.question, end=True)}"] if one.question.strip() else []
    texts += [f"expected {code(one.expected)}"] if one.expected else []
    texts += [f"answered {code(one.answered)}"] if one.answered is not None else []
    yield f"- row {one.row}{name}: {', '.join(what)}{': ' * bool(texts)}{', '.join(texts)}"
    yield f"  `{one.command}`"


def checkpoints(found: FeedbackReply) -> Iterator[str]:
    """Yield the overview of all measured checkpoints."""
    if len(found.checkpoints) < 2:
        return
    has_best = any(one.best for one in found.checkpoints)
    cells = [["step", "checkpoint", "state", *map(text, found.objective), *([""] if has_best else [])]]
    first = len(found.checkpoints) - MOST_CHECKPOINTS
    listed = [one for place, one in enumerate(found.checkpoints) if one.best or place >= first]
    for one in listed:
        step = NONE if one.step is None else "last" if one.step == FINAL_STEP else f"{one.step:,}"
        values = [NONE if each is None else f"{shown(each)} {interval(each)}" for each in one.values]
        mark = ["best so far" if one.best else ""] if has_best else []
        cells.append([step, text(one.name), one.state, *values, *mark])
    yield from ("## Checkpoints", "", *table(cells), "")
    if left_out := len(found.checkpoints) - len(listed):
        yield from (f"Not listed: {several(left_out, 'earlier checkpoint')}; the JSON has all.", "")


def title(item: BenchmarkFeedback) -> str:
    return text(f"{item.benchmark} {item.kind}")


def shown(metric: MetricView) -> str:
    """Return a value with its unit."""
    return value(metric) + " %" * (metric.unit == "share" and metric.value is not None)


def value(metric: MetricView, *, signed: bool = False) -> str:
    """Return a value: a share in percent."""
    return NONE if metric.value is None else number(metric.value, metric.unit, signed=signed)


def interval(metric: MetricView, *, signed: bool = False) -> str:
    """Return the interval of a value."""
    if metric.ci_low is None or metric.ci_high is None:
        return NONE
    ends = (number(each, metric.unit, signed=signed) for each in (metric.ci_low, metric.ci_high))
    return f"({' to '.join(ends)})"


def number(amount: float, unit: str, *, signed: bool) -> str:
    sign = "+" if signed else ""
    return f"{100 * amount:{sign}.1f}" if unit == "share" else f"{amount:{sign}.3f}"


def table(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of Markdown, its columns aligned for a terminal."""
    widths = [max(3, *map(cell_width, column)) for column in zip(*cells, strict=True)]
    padded = [
        "| "
        + " | ".join(cell + " " * (width - cell_width(cell)) for cell, width in zip(row, widths, strict=True))
        + " |"
        for row in cells
    ]
    return [padded[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *padded[1:]]


def text(foreign: str) -> str:
    """Return a text in which nothing is taken for markup."""
    return NUMBERED.sub(r"\1\\\2", MARKUP.sub(r"\\\1", safe_line(foreign).strip()))


def code(foreign: str, *, end: bool = False) -> str:
    """Return the beginning of a foreign text, or its `end`, as a code span, in which nothing is taken for markup."""
    words = " ".join(foreign.split())
    if end and len(words) > LONGEST_TEXT:
        words = f"…{words[1 - LONGEST_TEXT :]}"
    shown = fit(safe_line(words), LONGEST_TEXT).replace("|", "¦").strip()
    ticks = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else "an empty text"
