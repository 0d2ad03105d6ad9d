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

Training sets are listed last. One is prepared and dispatched only when its own name is given (`--only-datasets
gsm8k_train`; names are no patterns, so nothing else reaches it: no domain, kind or profile), and its scores are in no
matrix, no report and no comparison that does not name it. `rwkvctl scores`, `samples` and `export` show them.

## Picking rows

Every kind of every benchmark has three settings that pick rows, and all enter the generation key:

- `--set rows=0:20000` picks by index in the prepared set, before anything else. The second number is the first index
  that is left out; `:100` and `100:` leave a side open.
- `--set where='difficulty>=4 difficulty<=9 source=math'` picks among those by the rows' fields. Conditions are
  separated by blanks and must all hold; operators are `= != < <= > >=`. A value without quotes that reads as a number
  is compared as a number, also with a text that reads as one (`"7"` of a csv file); any other value is compared as
  text, by `=` and `!=` only, and in upper and lower case as it stands. A value or a field with blanks or marks is
  written in quotes: `subject="Number Theory"`. A row without the field does not match, whatever the operator.
- `--set order=difficulty` asks them by the number that they have in a field, the lowest first, equal ones as they stand
  in the set. A row without a number there is not asked. `--set order=FILE` asks the rows of an order file (below).

`order` is applied after a window of days; then come part, share, attempts and `--limit`, each of what is left. Fields
are numbers, booleans and texts of at most 200 characters; `rwkvctl benchmarks show NAME` lists those of a prepared set.
An unknown field, and a filter that leaves no row, are refused. A score over some of the rows is marked partial and says
what was picked; it is compared with runs of the same rows in the same order only. `benchmarks.toml` may set all three.
A search for settings takes no `order`: it drops points by the rows that it asks first.

**Labels** are values that rows get later, and `where` and `order` know them as they know fields:

```
rwkvctl data label numina_math --from labels.parquet --column gpt_difficulty_parsed    # called difficulty
rwkvctl data label numina_math --jobs j81                                 # called difficulty-by-pass-rate
rwkvctl data label numina_math --rule difficulty --set rows=0:20000       # the writer is asked; called difficulty
rwkvctl dispatch --only-datasets numina_math --set where='difficulty>=4 difficulty<=9'
```

- A file is JSON lines, a JSON list, csv (its first line names the columns) or parquet. A row of the set is found by the
  column `row` (what it is called in samples and exports, or else its index); without that by the problem (blanks do not
  matter), and without that by an id. Rows of the file that are none of the set are passed over. A row of the set has no
  label if the file has no value for it, or several that differ; an empty value, NaN and -1 are none.
- Of finished jobs, `difficulty-by-pass-rate` is 10 - 9 x the share of right samples among those with a verdict: 10 if
  none is right, 1 if all are. The samples of several jobs count together, with the grades that they have then.
- With `--rule difficulty` the writer, the model of `[writer]` ([recipes.md](recipes.md)), is asked how difficult each
  problem is, from 1 to 10 on the scale of contests: it is shown the scale with problems of its levels, and the problem
  alone, without its answer. `--check` says what that costs. It is a job of the model `writer`, with one sample a row:
  `jobs`, `samples`, `logs`, `stop` and `resume` know it, but it measures nothing and has no score. A reply is
  `{"level": 4.5}`, by JSON schema if the server takes one, else a number in double brackets, else one in brackets at
  its end; one that says nothing or two things is asked for again, three times in all, and the row has no label then
  (`unreadable`). Labels of the same rule, writer, rows and name add up over jobs, and no reply is paid twice: rows
  that failed are asked once more by the same command.
- Labels belong to the rows as they are prepared: other rows have none of them. Each version is a file of its own,
  `HOME/data/NAME/labels/FIELD@SHA256.jsonl`, which never changes; `rwkvctl benchmarks show NAME` lists them with their
  origin. A name alone means the version that was made last. A job keeps the version it was dispatched with: its `where`
  says `difficulty@1a2b3c4d>=4`, its `order` `difficulty@1a2b3c4d`, and may be dispatched so. If that file is removed,
  the job is held until it is back.
- A name that a field of the rows has is refused; `--field` gives another.

**Order files** name rows in the order in which they are to be asked, or trained on:

```
rwkvctl order j12 --by pass-rate --band 0.1 0.9 --to gsm8k.order.txt         # the easiest first
rwkvctl order j12 j15 --by difficulty --band 4 8 --to gsm8k.order.txt        # by a field or labels, the lowest first
rwkvctl dispatch --only-datasets gsm8k --set order=gsm8k.order.txt --limit 200
```

- The file has what a row is called on each line; `gsm8k.order.txt.json` beside it has the share of right samples of
  each row, of how many samples with a verdict that is (`n`), and how many rows were left out why. Several jobs of
  one benchmark count together, with the grades that they have then. The band includes its ends; equal rows stand in the
  order of their names.
- `--set order=FILE` takes any such file of one benchmark, up to 7 MiB as JSON (350,000 short names). A name with a dot
  or a slash is a file: write `./hard` for a file `hard`, and `order='"v.1"'` for a field `v.1`. Rows are named as in
  samples and exports, or by NAME/INDEX, or by their index; blank lines say nothing. A line that names no row, or one
  that was named before, is refused with its number.
- The node keeps the order as labels of the rows, also for a `queue`: the place of each row. The same order is the same
  work, however its file is called. Such labels are meant with their version only, as `rwkvctl show JOB` has it:
  `order = "row-order@1a2b3c4d"` in `benchmarks.toml`, `--set where='row-order@1a2b3c4d<=100'` for its first hundred
  rows.

A row has a number in its job, which counts the rows that the job asked, and a name that is the same in every job: the
id it has upstream, else NAME/INDEX, its place in the prepared set. Samples and exports carry it as `row_id`.

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
        of_domain = [benchmark for benchmark in benchmarks if benchmark.domain == domain and not benchmark.training]
        if of_domain:
            sections += [f"## {title}\n", *(entry(benchmark) for benchmark in of_domain)]
    training = [benchmark for benchmark in benchmarks if benchmark.training]
    return "\n".join([*sections, "## Training sets\n", *(entry(benchmark) for benchmark in training)])


def overview(benchmarks: Iterable[Benchmark]) -> str:
    """Return the overview as a Markdown table with one row for each benchmark."""
    lines = [
        f"| [{one.name}](#{one.name}) | {cell(what(one))} | {rows_of(one)} | {len(one.kinds)} | {cell(one.licence)} |"
        for one in benchmarks
    ]
    return "\n".join(["| name | what | rows | kinds | licence |", "|---|---|---|---|---|", *lines, ""])


def what(benchmark: Benchmark) -> str:
    """Return the title, and whether the set is there to be trained on."""
    return f"{benchmark.title}{', to train on' * benchmark.training}"


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
