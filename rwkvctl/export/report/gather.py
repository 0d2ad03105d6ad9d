"""What a report shows, asked of the daemon: scores with their provenance, comparisons, samples.

Rows, columns and means are the matrix's that the console shows too; differences and verdicts are the daemon's.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeVar

import msgspec

from rwkvctl.cli.client import Client, Record
from rwkvctl.cli.long_reads import compared
from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError, UnreachableError, VersionSkewError
from rwkvctl.protocol.model_names import is_shown_as, meant
from rwkvctl.protocol.replies import BenchmarksReply, CompareReply, ModelsReply, ScoresReply
from rwkvctl.protocol.views import ComparisonView
from rwkvctl.scoreboard.book import Book, Key
from rwkvctl.scoreboard.matrix import Choice, MatrixRow, Verdicts, domains_of, keys_of, rows_of

PAGE: Final = 500
BASELINES: Final = 8
"""Models that can be chosen as the baseline without being named: the newest ones."""

R = TypeVar("R", ModelsReply, BenchmarksReply, ScoresReply, CompareReply)
Report = Callable[[str, int, int], None]
"""Told what is asked for, how much of it came, and of how much."""


class ReportFilters(NamedTuple):
    """What a report is of. Models and benchmarks are names or shell patterns; none means all."""

    models: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    baselines: Sequence[str] = ()


@dataclass
class ReportData:
    """What a report shows, except for the samples. `scores` are by job; `verdicts` by (base, model), the older model
    first where nobody chose the base."""

    node: str = ""
    rows: list[MatrixRow] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    domains: dict[str, str] = field(default_factory=dict)
    scores: dict[str, Record] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], Verdicts] = field(default_factory=dict)
    baselines: list[str] = field(default_factory=list)

    @property
    def jobs(self) -> list[str]:
        """Return the runs that are shown, model by model."""
        return [row.cells[key].job for row in self.rows for key in self.keys if key in row.cells]


def gather(client: Client, wanted: ReportFilters, report: Report) -> ReportData:
    """Ask for everything but samples. Raises RefusedError where nothing is left to show."""
    models = typed(client.get("/v1/models", scored=True).raw, ModelsReply)
    benchmarks = typed(client.get("/v1/benchmarks").raw, BenchmarksReply)
    training = [view.name for view in benchmarks.items if view.training]
    refuse_training(wanted, training)
    book, known = Book(), dict[str, Record]()
    for raw in score_pages(client):
        reply = typed(raw, ScoresReply)
        chosen = [view for view in reply.items if matches(view.model, wanted.models) or is_shown(view.model, wanted)]
        chosen = [view for view in chosen if matches(view.benchmark, wanted.benchmarks)]
        chosen = [view for view in chosen if view.benchmark not in training]
        book.take(chosen)
        for view in chosen:  # under its own name first, then under others of the same weights
            known.setdefault(view.job, msgspec.to_builtins(view))
        report("scores", book.count, 0)
    rows = [row for row in rows_of(models.items, book.models, {}, {}, Choice()) if row.cells]
    if not rows:
        raise nothing(wanted, [view.name for view in models.items], [view.name for view in benchmarks.items])
    found = ReportData(models.node, rows, domains=domains_of(benchmarks.items))
    found.keys = keys_of(rows, found.domains)
    found.keys.sort(key=lambda key: (found.domains.get(key[0], ""), *key))
    found.scores = {job: known[job] for job in found.jobs}
    found.baselines = baselines_of(rows, wanted.baselines)
    compare(client, found, sorted({name for name, _ in found.keys}) if wanted.benchmarks else [], report)
    return found


def refuse_training(wanted: ReportFilters, training: Sequence[str]) -> None:
    """Raise RefusedError for a training set that is named: its score would stand among measurements."""
    for name in wanted.benchmarks:
        if name in training:
            detail = f"{name} is a training set: its scores are in no report."
            raise RefusedError("training-set", detail, f"`rwkvctl scores --benchmark {name}` lists them.", Exit.REFUSED)


def typed(raw: bytes, kind: type[R]) -> R:
    """Decode a raw reply as a message of the type `kind`. Raises VersionSkewError if it is none."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        raise VersionSkewError(f"The daemon's reply cannot be read ({error}); is it a rwkvctl daemon?") from error


def score_pages(client: Client) -> Iterator[bytes]:
    """The newest score of each model, benchmark and kind, page by page."""
    before = None
    while True:
        answer = client.get("/v1/scores", limit=PAGE, before=before)
        yield answer.raw
        before = answer.value.get("next") or None
        if before is None:
            return


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name is one of those wanted."""
    return not patterns or any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def is_shown(model: str, wanted: ReportFilters) -> bool:
    """Return whether a list with little room shows a model as one of those that are wanted."""
    return any(is_shown_as(model, word) for word in wanted.models)


def nothing(wanted: ReportFilters, models: list[str], benchmarks: list[str]) -> RefusedError:
    """The refusal where no score matches, with what may have been meant."""
    close = [
        near for words, names in ((wanted.models, models), (wanted.benchmarks, benchmarks))
        for word in words if word not in names for near in get_close_matches(word, names, 1, 0.5)
    ]  # fmt: skip
    hint = f"Did you mean {' '.join(close)}?" if close else "`rwkvctl scores` lists all scores."
    return RefusedError("no-such-score", "No score matches.", hint, Exit.NOT_FOUND)


def baselines_of(rows: Sequence[MatrixRow], named: Sequence[str]) -> list[str]:
    """What each model may be compared with besides the one before it. Raises RefusedError for one without a score."""
    names = [row.name for row in rows]
    chosen = [one for name in named for one in meant(name, names) or [name]]
    for name in chosen:
        if name not in names:
            close = get_close_matches(name, names, 1, 0.5)
            hint = f"Did you mean {close[0]}?" if close else "It must be among the models that the report shows."
            raise RefusedError("no-such-score", f"There is no score of {name} to compare with.", hint, Exit.NOT_FOUND)
    return list(dict.fromkeys(chosen)) or names[:BASELINES]


def compare(client: Client, found: ReportData, benchmarks: list[str], report: Report) -> None:
    """Compare each model with the one before it and with every baseline, each pair once."""
    pairs = pairs_of(found.rows, found.baselines)
    for number, (a, b) in enumerate(pairs):
        report("comparisons", number, len(pairs))
        try:
            raw = compared(client, {"a": a, "b": b, "benchmarks": benchmarks}).raw
            items: Sequence[ComparisonView] = typed(raw, CompareReply).items
        except UnreachableError:
            raise
        except RwkvctlError:  # a base that has nothing in common, or no score any more: nothing is known
            items = ()
        found.verdicts[a, b] = {(view.benchmark, view.kind): view for view in items}
    found.rows = [row._replace(verdicts=found.verdicts.get((row.base, row.name))) for row in found.rows]


def pairs_of(rows: Sequence[MatrixRow], baselines: Sequence[str]) -> list[tuple[str, str]]:
    """(base, model) of all that is compared; of two pairs that are mirrors one, the older model first."""
    pairs = {(row.base, row.name): None for row in rows if row.base}
    names = [row.name for row in rows]
    for base in baselines:
        for name in names:
            older, newer = sorted((base, name), key=names.index, reverse=True)
            if base != name and (newer, older) not in pairs:
                pairs[older, newer] = None
    return list(pairs)
