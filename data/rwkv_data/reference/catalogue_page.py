"""The page of the catalogue, docs/benchmarks.md: `python -m rwkv_data.reference.catalogue_page > docs/benchmarks.md`.

It is made from the benchmarks themselves; a test compares.
"""

import sys
from collections.abc import Iterable

from rwkv_data.definition import registry
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.kind import Kind
from rwkv_data.reference.show import source_of

HEAD = """\
# Benchmarks

Written by `python -m rwkv_data.reference.catalogue_page`; `make docs` brings it up to date, and a test compares.

A benchmark is rows and kinds of asking them. `rwkvctl dispatch` runs the kinds in bold print; the others run when they
are named (`--only-jobs free_response.lm-eval`), or their profile is (`--profiles lm-eval`). Of a set with
`free_response` and `free_response_judge` in bold print the judged kind runs where a judge is set, else the plain one;
named together, both grade the same completions, which are generated once. k is how many samples a row
gets; the first metric is the headline. `rwkvctl benchmarks show NAME KIND` prints the prompts as they are sent, with
sampling and stops. Rows are never part of rwkvctl: `rwkvctl data prepare NAME` fetches them, or takes them from your
files (`--from`). Mind their licences, which are given as far as they are known.

*schema unverified* stands with sets whose columns are those that their own page publishes, of which no real row was at
hand when their reader was written. A dash means that nobody counted the rows.
"""
TITLES = {
    "multi_choice": "Multiple choice",
    "free_response": "Free answers",
    "code": "Code",
    "instruction_following": "Instructions, open prompts, translation",
    "language_model": "Language models",
    "param_search": "Searches",
}
COLUMNS = "| kind | profile | grader | k | metrics |\n|---|---|---|---|---|"


def page() -> str:
    """Return the page as Markdown: the introduction, the overview, and a section for each domain."""
    benchmarks = [registry.load(name) for name in registry.names()]
    sections = [HEAD, overview(benchmarks)]
    for domain, title in TITLES.items():
        of_domain = [benchmark for benchmark in benchmarks if benchmark.domain == domain]
        if of_domain:
            sections += [f"## {title}\n", *(entry(benchmark) for benchmark in of_domain)]
    return "\n".join(sections)


def overview(benchmarks: Iterable[Benchmark]) -> str:
    """Return the overview as a Markdown table with one row for each benchmark."""
    lines = [
        f"| [{one.name}](#{one.name}) | {cell(one.title)} | {rows_of(one)} | {len(one.kinds)} | {cell(one.licence)} |"
        for one in benchmarks
    ]
    return "\n".join(["| name | what | rows | kinds | licence |", "|---|---|---|---|---|", *lines, ""])


def entry(benchmark: Benchmark) -> str:
    """Return the section of a benchmark: its facts, and a table of its kinds."""
    facts = [
        f"{benchmark.title}. Rows: {rows_of(benchmark)} ({benchmark.split}).",
        f"Licence: {benchmark.licence}. Source: {source(benchmark)}.",
        *(["Few-shot examples are prepared with it."] if benchmark.pool or benchmark.pool_files else []),
        *(["*Schema unverified.*"] if not benchmark.schema_verified else []),
    ]
    kinds = [line(kind) for kind in benchmark.kinds.values()]
    return "\n".join([f"### {benchmark.name}", "", *facts, "", COLUMNS, *kinds, ""])


def line(kind: Kind) -> str:
    """Return the row of a kind in its benchmark's table."""
    name = f"**{kind.name}**" if kind.default else kind.name
    judge = f", judge {kind.grader.judge.name}" if kind.grader.judge else ""
    k = "points of a grid" if kind.search else f"{kind.settings()['k']:g}"
    return f"| {name} | {kind.profile}/{kind.profile_version} | {kind.grader.name}{judge} | {k} | {metrics(kind)} |"


def metrics(kind: Kind) -> str:
    """Return the names of a kind's metrics, the headline first; `best point` for a search."""
    return "best point" if kind.search else ", ".join(kind.metrics)


def rows_of(benchmark: Benchmark) -> str:
    """Return how many rows the whole set has, as text."""
    return f"{benchmark.rows:,}" if benchmark.rows else "–"


def source(benchmark: Benchmark) -> str:
    """Return where the rows come from; of several addresses the first."""
    first, *more = source_of(benchmark).split(" https://")
    return first + (f" and {len(more)} more" if more else "")


def cell(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.stdout.write(page())
