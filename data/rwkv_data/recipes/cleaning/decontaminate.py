"""Cleaning of a file of training rows: a report, and a file of the rows that stay."""

import array
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rwkv_data.definition.errors import PrepareError, RowError, SettingError
from rwkv_data.definition.registry import Catalogue
from rwkv_data.recipes.cleaning.checked_benchmarks import CheckedBenchmarks, checked_benchmarks
from rwkv_data.recipes.cleaning.clean import Cleaned, clean
from rwkv_data.recipes.cleaning.problem_file import ProblemFile, problem_file
from rwkv_data.recipes.cleaning.problem_text import Problem, ProblemOf, problem_of
from rwkv_data.recipes.cleaning.report import Summary, entries, json_line
from rwkv_data.recipes.whole_files import finish_writing, refuse_existing, whole_files

DROPPED: Final = ".dropped.jsonl"
"""What is put after the name of the clean file for the file of dropped rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningOrder:
    """What is to be done with a file. Without `to` nothing is written."""

    file: Path
    to: Path | None = None
    fields: Sequence[str] = ()
    require_checked: bool = False
    replace: bool = False


@dataclass(frozen=True, slots=True)
class CleaningProgress:
    """Who is told how far the work is: the benchmark whose index is opened or made, how many are done, and of how many;
    and how many rows were compared."""

    indexing: Callable[[str, int, int], None]
    comparing: Callable[[int], None]


def decontaminate(
    order: CleaningOrder, catalogue: Catalogue, data_dir: Path, cache: Path, progress: CleaningProgress
) -> Summary:
    """Compare the problems of a file with the prepared benchmarks and with each other, and write the rows that stay.
    Raises an error of one sentence, and then has written nothing, if anything about the file is not as it should be."""
    source = problem_file(order.file)
    _check_target(order, source)
    with tempfile.TemporaryDirectory(prefix="rwkvctl-clean-") as folder:
        scratch = Path(folder)
        try:
            checked = checked_benchmarks(catalogue, data_dir, cache, scratch, progress.indexing)
            if order.require_checked:
                checked.require_all()
            reading = _Reading(source, order.fields)
            cleaned = clean(reading, checked.indexes, scratch, progress.comparing)
        except OSError as error:
            place = error.filename or f"{scratch} or {cache}"
            raise PrepareError(f"{place} cannot be used: {error.strerror or error}") from error
        return _reported(order, source, checked, cleaned, reading.lines)


def _check_target(order: CleaningOrder, source: ProblemFile) -> None:
    if order.to is None:
        return
    if order.to.name in {"", ".."}:
        raise SettingError(f"{order.to} is no name of a file: --to names the file to write")
    source.check_name(order.to.name)
    if not order.to.parent.is_dir():
        raise PrepareError(f"{order.to} cannot be written: there is no folder {order.to.parent}")
    finish_writing(order.to)
    for path in _targets(order.to):
        if path.exists() and path.samefile(order.file):
            raise SettingError(f"{path} is the file itself: what is dropped would be lost; name another one")
        refuse_existing(path, replace=order.replace)


def _targets(to: Path) -> tuple[Path, Path]:
    return to.with_name(to.name + DROPPED), to


class _Reading:
    """The problems of a file; afterwards `lines` says where each stands."""

    def __init__(self, source: ProblemFile, fields: Sequence[str]) -> None:
        self._source, self._fields = source, fields
        self.lines = array.array("q")

    def __iter__(self) -> Iterator[Problem]:
        of_row: ProblemOf | None = None
        for line, place, row in self._source.rows():
            try:
                of_row = of_row or problem_of(row, self._fields)
                problem = of_row(row)
            except (RowError, SettingError) as error:
                raise type(error)(f"{place}: {error}") from None
            self.lines.append(line)
            yield problem
        if not self.lines:
            raise PrepareError(f"{self._source.path} has no rows")


def _reported(
    order: CleaningOrder, source: ProblemFile, checked: CheckedBenchmarks, cleaned: Cleaned, lines: Sequence[int]
) -> Summary:
    summary = Summary(str(order.file), len(lines), cleaned.duplicates.in_part, cleaned.without_words, checked)
    if order.to is None:
        for entry in entries(cleaned, lines):
            summary.add(entry)
        return summary
    targets = _targets(order.to)
    with whole_files(targets, replace=order.replace) as (dropped, clean_file):
        for entry in entries(cleaned, lines):
            summary.add(entry)
            dropped.write(json_line(entry))
        source.copy(cleaned.stays, clean_file, order.to.name)
    summary.written = [str(path) for path in reversed(targets)]
    return summary
