"""Cleaning of the problems of a recipe: each once, however many rows it gives."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rwkv_data.recipes.cleaning.checked_benchmarks import CheckedBenchmarks
from rwkv_data.recipes.cleaning.clean import clean
from rwkv_data.recipes.cleaning.problem_text import Problem
from rwkv_data.recipes.cleaning.report import entries

REPEATS: Final = "duplicates of earlier problems"


class DroppedProblem(NamedTuple):
    """Why a problem is dropped, in a few words, and what a file of dropped rows says of it."""

    why: str
    entry: dict[str, Any]


def dropped_problems(
    problems: Iterable[Problem], names: Sequence[str], checked: CheckedBenchmarks, scratch: Path,
    report: Callable[[int], None],
) -> dict[int, DroppedProblem]:  # fmt: skip
    """Return the problems to drop, by their places: those near a benchmark, and those that repeat an earlier one.
    `names` is what their rows are called, complete once they were read; `scratch` a folder for what is written
    meanwhile; `report` is told how many problems were compared."""
    cleaned = clean(problems, checked.indexes, scratch, report)
    found = entries(cleaned, range(len(names)))
    return {entry["line"]: DroppedProblem(_why(entry), _named(entry, names)) for entry in found}


def _why(entry: dict[str, Any]) -> str:
    return f"near {entry['benchmark']}" if entry["reason"] == "benchmark" else REPEATS


def _named(entry: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """An entry with the names of rows instead of lines of a file."""
    plain = {name: value for name, value in entry.items() if name not in {"line", "of_line"}}
    repeats = {"repeats": names[entry["of_line"]]} if "of_line" in entry else {}
    return {"row_id": names[entry["line"]]} | plain | repeats
