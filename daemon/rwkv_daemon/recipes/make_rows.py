"""`python -m rwkv_daemon.recipes.make_rows`: makes the training rows of one recipe; what it is told comes on standard
input (`row_order`). It reads the store beside the daemon, and writes to the recipe's folder alone.

On standard output it says in sentences what it is doing. Exit code 0: the rows are made; 1: they cannot be, and the
last line on standard error says why; AGAIN: not now.
"""

import asyncio
import errno
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.recipes import recipe_card
from rwkv_daemon.recipes.make_mix import make_mix
from rwkv_daemon.recipes.recipe_folder import MadeRows, RecipeFolder
from rwkv_daemon.recipes.row_cleaning import checked_for, write_dropped
from rwkv_daemon.recipes.row_order import AGAIN, RowOrder
from rwkv_daemon.recipes.sampled_problems import Sampled, read_samples
from rwkv_daemon.store import StoreDamagedError, StoreError
from rwkv_daemon.store.beside import read_beside
from rwkv_daemon.store.interface import StoreReader
from rwkv_daemon.store.queries.recipes.graded_samples import (
    TEXTS_AT_ONCE,
    texts_of,
    writer_was_asked,
)
from rwkv_data.definition import registry
from rwkv_data.definition.errors import RowError, RowSetMissingError
from rwkv_data.recipes.cleaned_problems import DroppedProblem, dropped_problems
from rwkv_data.recipes.cleaning.checked_benchmarks import CheckedBenchmarks
from rwkv_data.recipes.cleaning.problem_text import with_passages
from rwkv_data.recipes.files.lineage import Lineage, SampleUse
from rwkv_data.recipes.files.training_row import TrainingRow, Turn, check_row
from rwkv_data.recipes.funnel import FunnelStage, stage
from rwkv_data.recipes.indexed_lines import LineWriter
from rwkv_data.recipes.mixing.mix import Mix
from rwkv_data.recipes.recipe_file import Recipe, recipe_of
from rwkv_data.recipes.selection.problem_sample import ProblemSample
from rwkv_data.recipes.taking import Taken, rule_name, take
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.settings import store_url

Say = Callable[[str], None]
ROWS_AT_ONCE: Final = TEXTS_AT_ONCE // 3
"""A pair has two texts, and perhaps that of which one is a variant."""
NICE: Final = 10
"""Engines and graders of the node go first."""


def main() -> int:
    """Make the rows and return the exit code."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=RowOrder)
    os.nice(NICE)
    saying = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # an operator's own benchmark may print
    try:
        asyncio.run(make(order, lambda text: print(text, file=saying, flush=True)))
    except Exception as error:  # noqa: BLE001 - every end has its code and its sentence
        code, sentence = how_it_ended(error, order)
        sys.stderr.write(f"{sentence}\n")
        return code
    return 0


def how_it_ended(error: Exception, order: RowOrder) -> tuple[int, str]:
    """Return (exit code, sentence). An unexpected error is printed with its traceback before."""
    match error:
        case StoreError() | StoreDamagedError() | RowSetMissingError():  # rows to be mixed are replaced just now
            return AGAIN, str(error)
        case RwkvctlError():
            return 1, str(error)
        case OSError():
            full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            return AGAIN if full else 1, f"{error.filename or order.folder}: {error.strerror or error}"
        case _:
            traceback.print_exception(error)
            return 1, f"an error of the program, see the daemon's log: {type(error).__name__}: {error}"


async def make(order: RowOrder, say: Say) -> None:
    """Make the rows of a recipe, or of a mix. Raises RwkvctlError, StoreError, OSError."""
    recipe, folder = recipe_of(order.toml), RecipeFolder(Path(order.folder))
    folder.begin()
    made = (
        make_mix(order, recipe, folder, say)
        if isinstance(recipe, Mix)
        else await from_samples(order, recipe, folder, say)
    )
    folder.finish(made)


async def from_samples(order: RowOrder, recipe: Recipe, folder: RecipeFolder, say: Say) -> MadeRows:
    """Read the samples, take, clean and write."""
    store = order.store if store_url.is_url(order.store) else Path(order.store)
    async with read_beside(store, order.store_name) as reader:
        sampled = await read_samples(reader, catalogue_of(order), order, say)
        taken = take(recipe.taking, sampled.problems, rewritten=sampled.rewrites)
        say(f"compares {len({row.problem for row in taken.rows}):,} problems with the benchmarks")
        dropped, checked = clean(order, recipe, sampled, taken.rows, folder)
        stays = [row for row in taken.rows if row.problem not in dropped]
        near = Counter(dropped[row.problem].why for row in taken.rows if row.problem in dropped)
        first, *choosing = taken.funnel
        cleaned = stage("clean", "rows", len(taken.rows), near)
        funnel = (*sampled.funnel, first, *sampled.split_stage, *choosing, cleaned)
        written = await write(reader, recipe, sampled, stays, folder, say)
        costs = await recipe_card.costs(reader, sampled)
        card = recipe_card.card(order, recipe, sampled, costs, (*funnel, written), checked)
    return MadeRows(rows=written.rows_out, funnel=(*funnel, written), card=card)


def catalogue_of(order: RowOrder) -> NodeCatalogue:
    """Return the benchmarks of the node. A job's settings hold already what the operator's standing ones say."""
    folder = Path(order.benchmarks_dir)
    benchmarks = NodeBenchmarks(Path(order.data_dir), folder)
    files = registry.Catalogue(folder=folder)
    benchmarks.files = {name: files.load(name) for name in files.names()}
    stems = [path.stem for path in folder.glob("*.py")] if folder.is_dir() else []
    benchmarks.file_sha256 = {stem: registry.file_sha256(folder, stem) for stem in stems}
    return NodeCatalogue(benchmarks)


def clean(
    order: RowOrder, recipe: Recipe, sampled: Sampled, taken: Sequence[Taken], folder: RecipeFolder
) -> tuple[dict[int, DroppedProblem], CheckedBenchmarks]:
    """Return the problems to drop, by their places, and what they were compared with; why each is dropped is written to
    the folder. Raises NotCheckedError if a benchmark cannot be checked and the recipe asks for all."""
    with tempfile.TemporaryDirectory(prefix="clean-", dir=folder.new) as scratch:
        checked = checked_for(order, Path(scratch), require_all=recipe.require_checked)
        places = dict[tuple[str, str, int], list[int]]()
        for place in dict.fromkeys(row.problem for row in taken):
            places.setdefault(sampled.row_key(place), []).append(place)  # one row may be asked in several kinds
        firsts = [several[0] for several in places.values()]
        compared = map(with_passages, map(sampled.texts, firsts))
        names = [sampled.problems[place].row_id for place in firsts]
        found = dropped_problems(compared, names, checked, Path(scratch), lambda _: None)
    write_dropped(folder, found.values())
    every_place = list(places.values())
    return {place: each for number, each in found.items() for place in every_place[number]}, checked


async def write(
    reader: StoreReader, recipe: Recipe, sampled: Sampled, taken: Sequence[Taken], folder: RecipeFolder, say: Say
) -> FunnelStage:
    """Write the rows, and return the stage."""
    dropped = Counter[str]()
    with LineWriter(folder.new, "rows") as rows:
        for first in range(0, len(taken), ROWS_AT_ONCE):
            some = taken[first : first + ROWS_AT_ONCE]
            say(f"writes {first:,} of {len(taken):,} rows")
            texts = await texts_of(reader, [sample.number for row in some for sample in _with_original(row)])
            rewritten = await writer_was_asked(reader, [sample.number for row in some for sample in _rewritings(row)])
            for row in some:
                try:
                    made = training_row(recipe, sampled, row, texts, rewritten)
                    check_row(made)
                except RowError as error:
                    dropped[str(error)] += 1
                else:
                    rows.add(msgspec.json.encode(made) + b"\n")
    return stage("rows", "rows", len(taken), dropped)


def _samples(row: Taken) -> tuple[ProblemSample, ...]:
    return (row.chosen,) if row.rejected is None else (row.chosen, row.rejected)


def _with_original(row: Taken) -> tuple[ProblemSample, ...]:
    return _samples(row) if row.shortened is None else (*_samples(row), row.shortened)


def _rewritings(row: Taken) -> tuple[ProblemSample, ...]:
    """The samples that may be rewritings: instead of a variant what it is made of."""
    return _samples(row) if row.shortened is None else (row.shortened, *_samples(row)[1:])


def _uses(row: Taken) -> tuple[SampleUse, ...]:
    return ("answer",) if row.rejected is None else ("chosen", "rejected")


def training_row(
    recipe: Recipe, sampled: Sampled, row: Taken, texts: dict[int, str], asked_writer: dict[int, bool]
) -> TrainingRow:
    """Return a row as it is trained on: the user's turn, and what the model answered. Raises RowError if its samples
    are gone."""
    asked = sampled.asked[row.problem]
    before = [sampled.original(one, asked_writer[one.number]) for one in _rewritings(row) if one.number in asked_writer]
    shortened = () if row.shortened is None else (sampled.origin(row.shortened, "source"),)
    split = () if row.shortened is None else (sampled.writer(row.chosen, asked=True),)
    lineage = Lineage(
        row_id=sampled.problems[row.problem].row_id,
        rows_sha256=asked.of.job.rows_sha256,
        selector=rule_name(recipe.taking, row.rule),
        samples=(
            *(sampled.origin(sample, use) for use, sample in zip(_uses(row), _samples(row), strict=True)),
            *shortened,
            *(original for original, _ in before),
        ),
        writers=tuple(dict.fromkeys([*(writer for _, writer in before), *split])),
    )
    turns = [Turn("user", turn.content) for turn in asked.of.kind.turns(sampled.row(row.problem))]
    if any(sample.number not in texts for sample in _with_original(row)):
        raise RowError("the sample is gone: its job was removed meanwhile")
    if row.shortened is not None and not is_part(texts[row.chosen.number], texts[row.shortened.number]):
        raise RowError("the variant is of another sample: its job was graded again before the variant was made")
    answers = [texts[sample.number].strip() for sample in _samples(row)]
    made = TrainingRow(turns=tuple(turns), lineage=lineage, problem=sampled.texts(row.problem))
    if row.rejected is not None:
        return msgspec.structs.replace(made, chosen=answers[0], rejected=answers[1])
    return msgspec.structs.replace(made, turns=(*turns, Turn("assistant", answers[0])))


def is_part(variant: str, whole: str) -> bool:
    """Whether a text is another one, with one piece taken out at most."""
    begin = same_letters(variant, whole)
    return begin + same_letters(reversed(variant[begin:]), reversed(whole[begin:])) == len(variant)


def same_letters(first: Iterable[str], second: Iterable[str]) -> int:
    """Return with how many equal letters both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


if __name__ == "__main__":
    sys.exit(main())
