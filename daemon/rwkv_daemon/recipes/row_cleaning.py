"""With what the rows of a recipe are compared, and the file of those that were dropped."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rwkv_daemon.recipes.recipe_folder import RecipeFolder
from rwkv_daemon.recipes.row_order import RowOrder
from rwkv_data.definition import registry
from rwkv_data.recipes.cleaned_problems import DroppedProblem
from rwkv_data.recipes.cleaning.checked_benchmarks import CheckedBenchmarks, checked_benchmarks
from rwkv_data.recipes.indexed_lines import LineWriter


def checked_for(order: RowOrder, scratch: Path, *, require_all: bool) -> CheckedBenchmarks:
    """Return the benchmarks of the node. Raises NotCheckedError if one cannot be checked and all are required."""
    data_dir = Path(order.data_dir)
    every = registry.Catalogue(folder=Path(order.benchmarks_dir), data_dir=data_dir)
    found = checked_benchmarks(every, data_dir, Path(order.cache_dir), scratch, lambda _name, _done, _of: None)
    if require_all:
        found.require_all()
    return found


def write_dropped(folder: RecipeFolder, dropped: Iterable[DroppedProblem]) -> None:
    """Write why each problem was dropped."""
    with LineWriter(folder.new, "dropped") as lines:
        for each in dropped:
            lines.add(msgspec.json.encode(each.entry) + b"\n")
