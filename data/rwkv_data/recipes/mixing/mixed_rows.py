"""Which rows of the parts of a mix become its rows, in which order, and how many are dropped for which reason.

Every row is read twice: once to compare its problem, and once to be written. In between a row is four numbers and the
name of its problem. What is drawn, and the order, depend on the seed and on what the rows say: the same rows give the
same file, in whatever order the parts are named, but that of rows that repeat each other the first one stays.
"""

import array
import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.cleaned_problems import REPEATS
from rwkv_data.recipes.cleaning.problem_text import Problem, with_passages
from rwkv_data.recipes.files.training_row import TrainingRow
from rwkv_data.recipes.funnel import FunnelStage, stage
from rwkv_data.recipes.mixing.mix import Mix, MixPart, shares

REPEATED: Final = "the same row again"
_REPEATED: Final = -1
_DIGEST: Final = 8


class PlacedRow(NamedTuple):
    """A row by the number of its part, and its number in it."""

    part: int
    row: int


@dataclass(frozen=True, slots=True)
class MixedRows:
    """The rows of a mix in their order, by their places (`MixReading.placed`); how many each part gives; and the stages
    that led there."""

    rows: Sequence[int]
    taken: Sequence[int]
    funnel: tuple[FunnelStage, ...]


class MixReading:
    """The problems of the parts of a mix, in their order, each once: iterate, compare them, and then `mixed`.

    Rows of recipes that come from one row of one prepared set are one problem, whose samples do not repeat each other.
    A row of others is a problem of its own. What says the same as an earlier row is left out; but if it names its
    problem, and that is near a benchmark, so is the earlier one.
    """

    def __init__(self, mix: Mix, lines: Sequence[Iterable[bytes]], report: Callable[[int], None]) -> None:
        """`lines`: those of the parts; `report` is told how many rows were read."""
        self.names: list[str] = []
        self._mix, self._lines, self._report = mix, lines, report
        self._problems, self._parts = array.array("q"), array.array("q")
        self._draws, self._orders = array.array("Q"), array.array("Q")
        self._begins: list[int] = []
        self._again: list[tuple[int, int]] = []

    def __iter__(self) -> Iterator[Problem]:
        said, known, pairs = dict[bytes, int](), dict[bytes, int](), list[tuple[bool, str]]()
        for number, lines in enumerate(self._lines):
            part = self._mix.parts[number]
            self._begins.append(len(self._parts))
            for line in lines:
                row = _row(line, part)
                pairs = pairs or [(row.is_pair, part.name)]
                if row.is_pair != pairs[0][0]:
                    raise PrepareError(f"{pairs[0][1]} and {part.name} cannot be mixed: a file has rows or pairs")
                digest = self._note(number, row)
                first = said.setdefault(digest, len(self._problems))
                is_repeated = first != len(self._problems)
                if is_repeated and not row.problem:
                    self._problems.append(_REPEATED)
                    continue
                key = hashlib.sha256(f"{row.lineage.rows_sha256} {row.lineage.row_id}".encode()).digest()
                problem = known.get(key, len(self.names))
                self._problems.append(_REPEATED if is_repeated else problem)
                if is_repeated:
                    self._again.append((first, problem))
                if problem == len(self.names):
                    self.names.append(row.lineage.row_id)
                    if row.lineage.samples:
                        known[key] = problem
                    yield compared(row)

    def _note(self, part: int, row: TrainingRow) -> bytes:
        """Note the part of a row and by what it is drawn, and return a hash of what it says."""
        content = msgspec.json.encode((row.system, row.turns, row.chosen, row.rejected))
        digest = hashlib.sha256(b"%d\0" % self._mix.seed + content).digest()
        self._parts.append(part)
        self._draws.append(int.from_bytes(digest[:_DIGEST]))
        self._orders.append(int.from_bytes(digest[_DIGEST : 2 * _DIGEST]))
        if len(self._parts) % 1000 == 0:
            self._report(len(self._parts))
        return digest[2 * _DIGEST :]

    def mixed(self, dropped: Mapping[int, str]) -> MixedRows:
        """Return the rows, once all problems were compared; `dropped` says why some of them, by their numbers, are
        left out."""
        for place, problem in self._again:
            if dropped.get(problem, REPEATS) != REPEATS:
                self._problems[place] = problem
        why = Counter(self._why(problem, dropped) for problem in self._problems)
        of_part = [list[int]() for _ in self._mix.parts]
        for place, problem in enumerate(self._problems):
            if not self._why(problem, dropped):
                of_part[self._parts[place]].append(place)
        taken = shares(self._mix.parts, [len(each) for each in of_part])
        drawn = [
            heapq.nsmallest(count, each, key=self._draws.__getitem__)
            for each, count in zip(of_part, taken, strict=True)
        ]
        more = {
            f"more of {part.name}": len(each) - count
            for part, each, count in zip(self._mix.parts, of_part, taken, strict=True)
        }
        funnel = (
            stage("clean", "rows", len(self._problems), {reason: count for reason, count in why.items() if reason}),
            stage("mix", "rows", sum(map(len, of_part)), more),
        )
        in_order = sorted(chain.from_iterable(drawn), key=lambda place: (self._orders[place], place))
        return MixedRows(array.array("q", in_order), taken, funnel)

    @staticmethod
    def _why(problem: int, dropped: Mapping[int, str]) -> str:
        return REPEATED if problem == _REPEATED else dropped.get(problem, "")

    def placed(self, place: int) -> PlacedRow:
        """Return a row by its place among those of all parts, which follow each other."""
        part = self._parts[place]
        return PlacedRow(part, place - self._begins[part])


def compared(row: TrainingRow) -> Problem:
    """Return what is compared of a row: the problem that it was made of, else what the user says."""
    return with_passages(row.problem or ["\n".join(turn.text for turn in row.turns if turn.role == "user")])


def _row(line: bytes, part: MixPart) -> TrainingRow:
    try:
        return msgspec.json.decode(line, type=TrainingRow)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        again = "run it again" if part.is_recipe else "`rwkvctl data rows --replace` reads its file again"
        raise PrepareError(
            f"a row of {part.name} cannot be read: it is damaged or of another version; {again}"
        ) from None
