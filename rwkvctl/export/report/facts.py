"""What the page's script knows: models, columns, runs with their tables and samples, comparisons. Pure.

Every text is made safe here, so the page holds no character that a browser would hide or obey.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Table, role_of, seen, text_of
from rwkvctl.cli.tables import score_table
from rwkvctl.cli.tables.comparison_tables import caveats, probability
from rwkvctl.cli.tables.core_tables import score_note, value_with_interval
from rwkvctl.export.report.gather import ReportData
from rwkvctl.protocol.views import ComparisonView
from rwkvctl.scoreboard import score_notes
from rwkvctl.scoreboard.matrix import gain, titles_of
from rwkvctl.text.quantities import count
from rwkvctl.text.sanitize import safe_line

Samples = Mapping[str, Sequence[list[Any]]]


def facts(found: ReportData, samples: Samples) -> Record:
    """Return the data of the page's script. Models and columns are referred to by index."""
    models = {row.name: place for place, row in enumerate(found.rows)}
    keys = {key: place for place, key in enumerate(found.keys)}
    titles = titles_of(found.keys)
    runs = {
        row.cells[key].job: run(found.scores[row.cells[key].job], samples) | {"model": place, "key": keys[key]}
        for place, row in enumerate(found.rows) for key in found.keys if key in row.cells
    }  # fmt: skip
    pairs = [
        [models[a], models[b], [compared(view, keys[key]) for key, view in verdicts.items() if key in keys]]
        for (a, b), verdicts in found.verdicts.items()
        if a in models and b in models
    ]
    return {
        "models": [[safe_line(row.name), models.get(row.base, -1)] for row in found.rows],
        "keys": [safe_line(titles[key]) for key in found.keys],
        "runs": runs,
        "pairs": pairs,
    }


def run(score: Record, samples: Samples) -> Record:
    """One run: the tables of `scores show`, and its samples."""
    shown = samples.get(score["job"], ())
    tables = [table(one) for one in score_table.whole(score) if one.rows]
    known = {"said": headline(score), "note": safe_line(noted(score)), "left": left_out(score, len(shown))}
    return known | {"tables": tables, "samples": shown}


def noted(score: Record) -> str:
    """What must be known with a score, or why there is none."""
    return score_note(score, (score["metrics"].get(score["primary"]) or {}).get("value"))


def headline(score: Record) -> str:
    """Return the headline of a run: `accuracy 74.9 ±2.3, 1,319 samples`, whether it is partial, and when it ended."""
    said = value_with_interval(score["metrics"].get(score["primary"]))
    partial = ", partial" * bool(score.get("partial"))
    return safe_line(f"{score['primary']} {said}, {count(score['n'])} samples{partial}, ended {moment(score)}")


def moment(score: Record) -> str:
    """Return when a run ended, to the minute, UTC."""
    return str(score.get("finished", ""))[:16].replace("T", " ")


def left_out(score: Record, shown: int) -> str:
    """Return which samples are not in the report, and how to see them."""
    if not score_notes.has_samples(score):
        return "It came without samples."
    if shown >= score["n"]:
        return "All samples are shown, wrong ones first."
    more = f"{count(score['n'] - shown)} of {count(score['n'])} samples are left out"
    first = f"{count(shown)} are shown, wrong ones first; " if shown else ""
    return f"{first}{more}: `rwkvctl samples {score['job']}` has them all."


def table(found: Table) -> list[Any]:
    """Columns (title, whether to the right) and rows (text, role)."""
    found = seen(found)
    columns = [[column.title, column.right] for column in found.columns]
    return [columns, [[[safe_line(text_of(cell)), role_of(cell)] for cell in row] for row in found.rows]]


def compared(view: ComparisonView, key: int) -> list[Any]:
    """Column, both jobs, verdict, gain, difference with its interval, its digits, p, and what must be known with it."""
    share, found = view.unit == "share", view.difference
    ends = () if found is None else (found.value, found.ci_low, found.ci_high)
    known = None if None in ends or not ends else [round((end or 0.0) * (100 if share else 1), 4) for end in ends]
    why = view.why or caveats(msgspec.to_builtins(view))
    sides = f" (A is {view.job_a}, B is {view.job_b})" if why and view.job_a else ""
    said = [probability(view.p_holm), safe_line(why + sides)]
    return [key, view.job_a, view.job_b, view.verdict, round(gain(view), 6), known, 1 if share else 3, *said]
