"""What a benchmark is: rows, where they come from, and the kinds of asking them.

A benchmark is a value, built once in its own file under `rwkv_data.benchmarks`. Nothing here reads files or talks to
an engine: the job runner renders prompts, sends them, and hands the last stage's answer back to be graded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rwkv_data.definition.answer import Answer, Grade, Reason
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.few_shot import Shots
from rwkv_data.definition.grader import GradeFunction, Grader, Place
from rwkv_data.definition.kind import Domain, Kind
from rwkv_data.definition.stage import Row, Stage

__all__ = [
    "Answer",
    "Benchmark",
    "Domain",
    "Example",
    "Grade",
    "GradeFunction",
    "Grader",
    "HubSource",
    "Kind",
    "Place",
    "Reason",
    "Row",
    "Shots",
    "Stage",
    "WebSource",
    "by_name",
]


@dataclass(frozen=True, slots=True)
class HubSource:
    """Where rows lie on the Hugging Face hub. Without a revision the newest is taken, and recorded.

    `configs`: several configurations, read one after the other; each raw row says which under "_config". `files`: raw
    files of the repository (globs), read by our own readers instead of the `datasets` library: sets that have only a
    loading script, or whose rows that library changes. `gated`: access must be asked for at the set's page.
    """

    repo: str
    config: str
    split: str
    revision: str | None = None
    configs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    gated: bool = False


@dataclass(frozen=True, slots=True)
class WebSource:
    """Files of public repositories at fixed commits; `sha256` (of each file, in order) is checked where it is given."""

    urls: tuple[str, ...]
    sha256: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Example:
    """A graded example of a benchmark. It becomes a test by itself. `row` is a prepared row."""

    row: Row
    answer: Answer
    value: float
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Rows, and the kinds of asking them. `version` changes whenever rows, prompts or graders change their meaning.

    Rows come from a file, the hub or the web through `from_source` (raw row -> prepared row, or None for one that is
    left out on purpose), or, for a built-in benchmark, from `generate_rows`. `expand` turns the raw rows into others
    first (one row into several, or several into one). `rows` is how many the complete set has, 0 where that is not
    known. `local_files` are the names (or globs) under which public copies lie, in order of preference.
    `pool`, `pool_files`, `pool_from_source` say the same of the few-shot examples. `schema_verified` is False where the
    columns are those the set's own repository publishes and no real row has been seen here. `private`: its authors ask
    that rows are not shown, so `benchmarks show` uses the examples.
    """

    name: str
    version: int
    domain: Domain
    title: str
    licence: str
    split: str
    rows: int
    kinds: Mapping[str, Kind]
    check_row: Callable[[Row], None]
    examples: tuple[Example, ...]
    source: HubSource | WebSource | None = None
    from_source: Callable[[Row], dict[str, Any] | None] = dict
    expand: Callable[[Iterable[Row]], Iterable[Row]] | None = None
    local_files: tuple[str, ...] = ()
    pool: HubSource | WebSource | None = None
    pool_from_source: Callable[[Row], dict[str, Any] | None] | None = None
    pool_files: tuple[str, ...] = ()
    generate_rows: Callable[[], Iterable[Row]] | None = None
    schema_verified: bool = True
    private: bool = False

    @property
    def built_in(self) -> bool:
        """Needs no preparation."""
        return self.generate_rows is not None

    @property
    def is_dated(self) -> bool:
        """Whether rows have a day by which a window may pick them."""
        return any(kind.window for kind in self.kinds.values())

    @property
    def default_kind(self) -> Kind:
        """The kind that is meant when none is named: the first."""
        return next(iter(self.kinds.values()))

    def asked_like(self, kind: Kind) -> Kind:
        """Whose completions serve a kind as it comes: of those that ask with the very same stages and examples the
        first one without a judge. A search asks by its verdicts, so it shares nothing."""
        same = [
            one
            for one in self.kinds.values()
            if not one.search and not kind.search and (one.stages, one.shots) == (kind.stages, kind.shots)
        ]
        return next((one for one in same if one.grader.judge is None), kind)

    def instead_of(self, kind: Kind, *, judge: bool) -> str:
        """The kind that is meant where this usual one is not named: of one that is graded both ways the judged kind
        where there is a judge, else the plain one. Empty where this one is meant itself."""
        if not kind.default or (kind.grader.judge is not None) == judge:
            return ""
        plain = self.asked_like(kind)
        both = (one for one in self.kinds.values() if one.default and self.asked_like(one) is plain)
        return next((one.name for one in both if (one.grader.judge is not None) == judge), "")

    def convert(self, raw: Row, *, pool: bool = False) -> dict[str, Any] | None:
        """A raw row as a prepared one, checked; None if it is left out. Raises RowError, also where the row is of a
        shape nobody foresaw. Examples of a pool are checked by whoever writes them as text."""
        convert = (self.pool_from_source or self.from_source) if pool else self.from_source
        try:
            row = convert(raw)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RowError(f"the row is of no known shape ({type(error).__name__}: {error})") from error
        if row is not None and not (pool and self.pool_from_source):
            self.check_row(row)
        return row


def by_name(kinds: Sequence[Kind]) -> dict[str, Kind]:
    """Kinds under their own names, in order."""
    return {kind.name: kind for kind in kinds}
