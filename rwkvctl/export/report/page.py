"""The page itself: one HTML file with its style, its script and its data, and leave for nothing else.

The policy lets run the one script whose hash it names, and forbids the network. Whatever came from elsewhere is made
safe and escaped, in the markup as in the data.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, role_of, text_of
from rwkvctl.cli.tables.core_tables import half_interval, in_unit, score_note
from rwkvctl.export.report.drill import Plan
from rwkvctl.export.report.embedding import embedded
from rwkvctl.export.report.facts import moment
from rwkvctl.export.report.gather import ReportData
from rwkvctl.export.report.plots import legend, plot
from rwkvctl.scoreboard import score_notes
from rwkvctl.scoreboard.book import Key, Score
from rwkvctl.scoreboard.matrix import MatrixRow, mean, shared, titles_of
from rwkvctl.text.quantities import count, percent
from rwkvctl.text.sanitize import safe_line

RUN_COLUMNS: Final = (
    "run", "model", "benchmark", "kind", "score", "n", "cut off", "no answer", "errors", "finished", "prompts", "seed",
    "settings", "numerics", "engine", "weights", "rows", "key", "note",
)  # fmt: skip
NUMBERS: Final = frozenset({"score", "n", "cut off", "no answer", "errors"})
HASH: Final = 12


def page(found: ReportData, known: Record, notes: Iterable[str]) -> str:
    """Return the report as one self-contained HTML file; `known` is the data embedded in it."""
    style, script = part("page.css"), part("page.js")
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title(found))}</title>\n<style>{style}</style>\n"
        f"{head(found, notes)}{controls(found)}"
        f'<div class="wide"><table id="matrix">{"".join(matrix(found))}</table></div>\n'
        f"{trends(found)}<h2>Runs</h2>\n"
        f'<div class="wide"><table id="runs">{"".join(runs(found))}</table></div>\n{DIALOG}'
        f'<script type="application/json" id="data">{embedded(known)}</script>\n<script>{script}</script>\n</html>\n'
    )


def part(name: str) -> str:
    """Return the text of a file in the folder of this module."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Return the source expression of the content security policy that allows exactly this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def title(found: ReportData) -> str:
    """Return the title: how many models and benchmarks, and the name of the node."""
    return safe_line(f"Scores of {len(found.rows)} models on {len(found.keys)} benchmarks, {found.node}")


def head(found: ReportData, notes: Iterable[str]) -> str:
    """The title, what the page is of, and what must be known with it."""
    newest = max(moment(score) for score in found.scores.values())
    said = (
        f"{count(len(found.scores))} runs, the newest of each model on each benchmark; the last finished {newest} UTC."
    )
    lines = [said, *notes]
    return f"<h1>{escape(title(found))}</h1>\n" + "".join(f'<p class="dim">{escape(safe_line(s))}</p>\n' for s in lines)


def controls(found: ReportData) -> str:
    """Return the HTML of the controls above the matrix: the baseline, the two searches, the interval checkbox and the
    legend."""
    places = {row.name: place for place, row in enumerate(found.rows)}
    options = "".join(f'<option value="{places[name]}">{text(name)}</option>' for name in found.baselines)
    return (
        '<h2>Scores</h2>\n<nav><label>compared with<select id="base">'
        '<option value="">its baseline, or the previous model</option>'
        f"{options}</select></label>"
        '<label>models<input id="models" type="search" placeholder="part of a name"></label>'
        '<label>benchmarks<input id="benchmarks" type="search" placeholder="part of a name or domain"></label>'
        '<label class="line"><input id="half" type="checkbox" checked>95 % intervals</label>'
        '<small id="shown"></small></nav>\n<p class="dim"><span class="ok">▲ better</span>, <span class="bad">▼ worse'
        '</span>, = inconclusive, ~ not comparable, <span class="warn">! see the run\'s notes</span>. Verdicts '
        "are paired tests on the same rows, adjusted over the benchmarks (Holm); unpaired where a score was given "
        "without samples. A mean is over the benchmarks "
        "that every model has. Click a title to sort, a score to see its run.</p>\n"
    )


def matrix(found: ReportData) -> Iterator[str]:
    """Models by benchmarks. The script adds the marks of the chosen baseline."""
    titles, common = titles_of(found.keys), shared(found.rows, found.keys)
    yield f"<thead><tr>{heading('model')}{heading('mean', right=True)}{heading('worst Δ')}"
    yield from (heading(titles[key], found.domains.get(key[0], ""), right=True, tall=True) for key in found.keys)
    yield "</tr></thead><tbody>"
    for place, row in enumerate(found.rows):
        average = mean(row, common)
        yield f'<tr data-model="{place}" data-name="{text(row.name)}"><td class="bold">{text(row.name)}</td>'
        yield f'<td class="right">{percent(average)}</td><td class="dim">–</td>'
        yield from (cell(found, row, key, place) for place, key in enumerate(found.keys))
        yield "</tr>\n"
    yield "</tbody>"


def heading(name: str, under: str = "", *, right: bool = False, tall: bool = False) -> str:
    """A column's title, to be pressed; a search finds it by what stands under it too. A `tall` one is written upwards,
    so that its column is no wider than its numbers."""
    small = f"<small>{broken(under)}</small>" if under else ""
    side = ' class="right"' * right
    whole = f"<button>{broken(name)}</button>{small}"
    whole = f'<div class="tall">{whole}</div>' if tall else whole
    return f'<th{side} data-title="{text(f"{name} {under}")}">{whole}</th>'


def broken(name: str) -> str:
    """A name as markup; where it is too long for its line it goes on behind a `_` or a `·`, never inside a word."""
    return text(name).replace("_", "_<wbr>").replace("·", "·<wbr>")


def cell(found: ReportData, row: MatrixRow, key: Key, place: int) -> str:
    """A score with its interval, or that there is none."""
    score = row.cells.get(key)
    if score is None:
        return '<td class="right dim" data-v="">·</td>'
    metric = found.scores[score.job]["metrics"].get(score.primary) or {}
    value = metric.get("value")
    said = "null" if value is None else in_unit(value, metric)
    half = half_interval(metric)
    interval = f'<small class="half">±{half}</small>' if half != "–" else ""
    return (
        f'<td class="right" data-v="{"" if value is None else round(value, 6)}" data-job="{score.job}" '
        f'data-key="{place}"><a href="#{score.job}">{said}</a>'
        f'<b class="mark warn" data-note="{noted(score)}">{noted(score)}</b>{interval}</td>'
    )


def noted(score: Score) -> str:
    """The mark of a score with which something must be known."""
    return "!" if score.missing or score.notes or score.partial else ""


def trends(found: ReportData) -> str:
    """Return a plot for every benchmark with scores of several checkpoints."""
    drawn = [(found.domains.get(key[0], ""), name, plot(found.rows, key, name), legend(found.rows, key))
             for key, name in titles_of(found.keys).items()]  # fmt: skip
    figures = "".join(
        f'<figure data-title="{text(f"{name} {domain}")}"><h3>{broken(name)}</h3>{svg}{names}</figure>\n'
        for domain, name, svg, names in drawn if svg
    )  # fmt: skip
    if not figures:
        return ""
    said = "Scores by checkpoint, one line per size, with 95 % intervals. The checkpoints are named below."
    return f'<h2>By checkpoint</h2>\n<p class="dim">{said}</p>\n<div class="plots">{figures}</div>\n'


def runs(found: ReportData) -> Iterator[str]:
    """Every run that is shown, with what was measured and how."""
    yield f"<thead><tr>{''.join(heading(name, right=name in NUMBERS) for name in RUN_COLUMNS)}</tr></thead><tbody>"
    for job in found.jobs:
        score = found.scores[job]
        name, title = text(score["model"]), text(f"{score['benchmark']} {score['kind']}")
        yield f'<tr data-name="{name}" data-title="{title} {text(found.domains.get(score["benchmark"], ""))}">'
        yield f'<td data-v="{job[1:]}"><a href="#{job}">{job}</a></td>'
        for column, said in zip(RUN_COLUMNS[1:], run_cells(score), strict=True):
            role = f"right {role_of(said)}" if column in NUMBERS else role_of(said)
            number = f' data-v="{text_of(said).replace(",", "")}"' if column in NUMBERS - {"score"} else ""
            yield f'<td class="{role.strip()}"{number}>{text(text_of(said))}</td>'
        yield "</tr>\n"
    yield "</tbody>"


def run_cells(score: Record) -> list[str | Cell]:
    """What stands in the table of runs, but for the run's name."""
    known, metric = score.get("provenance", {}), score["metrics"].get(score["primary"]) or {}
    asked, value = known.get("configuration") or {}, metric.get("value")
    errors = score_notes.failed(score)
    settings = {**(known.get("settings") or {}), **({"limit": known["limit"]} if known.get("limit") else {})}
    engines = {str(one.get("engine_version", "")) for one in known.get("engines") or ()}
    return [
        score["model"],
        score["benchmark"],
        score["kind"],
        Cell("null", "warn") if value is None else Cell(in_unit(value, metric), "bold"),
        count(score["n"]),
        count(score_notes.counted(score, "truncated")),
        count(score_notes.counted(score, "no_answer")),
        Cell(count(errors), "bad" if errors else ""),
        moment(score),
        f"{asked.get('profile', '')}/{asked.get('profile_version', '')}".strip("/"),
        str(known.get("seed", "")),
        " ".join(f"{name}={value}" for name, value in settings.items()),
        str(known.get("numerics", "")),
        " ".join(sorted(engines)),
        *(str(known.get(name, ""))[:HASH] for name in ("weights_sha256", "rows_sha256", "generation_key")),
        Cell(score_note(score, value), "warn"),
    ]


def text(foreign: str) -> str:
    """Return a text escaped as HTML and made safe."""
    return escape(safe_line(foreign))


DIALOG: Final = (
    '<dialog id="run" aria-labelledby="title"><header><div><h3 id="title"></h3><div id="under" class="dim"></div>'
    '<div id="against"></div></div><button id="shut" class="close">close</button></header>'
    '<div id="metrics" class="tables"></div><p id="note" class="warn"></p><details><summary>counts, groups and '
    'provenance</summary><div id="facts" class="tables"></div></details><h2>Samples</h2><p id="left" class="dim"></p>'
    '<nav><label>find<input id="text" type="search" '
    'placeholder="a text"></label><label class="line"><input id="wrong" type="checkbox">only wrong ones</label>'
    '<small id="found"></small></nav><div id="samples"></div></dialog>\n'
)


def notes(found: ReportData, known: Record, plan: Plan, wanted: int, *, named: bool) -> list[str]:
    """Return sentences about what the report leaves out: baselines, samples and parts of texts."""
    shown = sum(len(run["samples"]) for run in known["runs"].values())
    whole = sum(score["n"] for score in found.scores.values())
    said = []
    if not named and len(found.baselines) < len(found.rows):
        said.append(f"The {len(found.baselines)} newest models can be chosen to compare with; --baseline names others.")
    if shown < whole:
        said.append(
            f"Of {count(whole)} samples {count(shown)} are shown, at most {plan.samples} per run, wrong ones first."
        )
    if plan.samples < wanted:
        said.append(f"{wanted} samples per run were requested: more than {plan.samples} would make the file too large.")
    if shown:
        said.append(f"Of the prompts and completions of a sample the last {count(plan.room)} bytes are kept.")
    return said
