"""Samples that a checkpoint gets wrong: first those that the other side has right, then one of each reason and subject
in turn."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare.flips import is_cut
from rwkv_daemon.compare.previous_run import by_row
from rwkv_daemon.jobs.row_names import row_names, row_subjects
from rwkv_daemon.jobs.score_writer import effective_kind
from rwkv_daemon.samples.long_reads import QuestionProgress
from rwkv_daemon.samples.paired_reading import MOST_AT_ONCE, pieces
from rwkv_daemon.store import JobRow, StoreRow
from rwkv_daemon.store.queries.comparing import GradedRun, verdict_values, verdicts
from rwkv_daemon.store.queries.samples import CURSOR, stages_of
from rwkv_daemon.training.feedback.collapse import AnswersGiven
from rwkvctl.protocol.training.feedback import MOST_ERRORS, ErrorSample
from rwkvctl.text.shell_words import as_typed

LONGEST: Final = 400
"""Characters of each text of an error sample."""


class WrongRow(NamedTuple):
    """A row that is not right, shown by its first sample that is not."""

    row: int
    repeat: int
    reason: str
    subject: str
    expected: str
    extracted: str | None


@dataclass(slots=True)
class WrongRows:
    """How many rows of a run are not right, and how many of these the other run has right; and of each kind of error
    the first few."""

    wrong: int = 0
    lost: int = 0
    answers: AnswersGiven = field(default_factory=AnswersGiven)
    groups: dict[tuple[bool, str, str], list[WrongRow]] = field(default_factory=dict)

    def add(self, found: WrongRow, *, was_right: bool) -> None:
        self.wrong += 1
        self.lost += was_right
        group = self.groups.setdefault((was_right, found.reason, found.subject), [])
        if len(group) < MOST_ERRORS:
            group.append(found)

    def chosen(self) -> list[tuple[bool, WrongRow]]:
        """Return the rows to show."""
        found: list[tuple[bool, WrongRow]] = []
        for was_right in (True, False):
            groups = [group for key, group in sorted(self.groups.items()) if key[0] == was_right]
            found += ((was_right, row) for row in in_turn(groups))
        return found[:MOST_ERRORS]


def in_turn(groups: Sequence[Sequence[WrongRow]]) -> Iterator[WrongRow]:
    """Yield the first of each group, then the second of each, and so on."""
    return (row for row in chain.from_iterable(zip_longest(*groups)) if row is not None)


@dataclass(frozen=True, slots=True)
class ErrorReader:
    """Reads what a job gets wrong. `other`: the run whose right rows count as lost; `kept`: only these rows."""

    records: Records
    catalogue: NodeCatalogue
    job: JobRow
    run: GradedRun
    other: GradedRun | None = None
    kept: frozenset[int] | None = None

    async def read(self, progress: QuestionProgress) -> WrongRows:
        """Return what is wrong, and what the answers have in common."""
        found = WrongRows()
        subjects = await asyncio.to_thread(row_subjects, self.records, self.catalogue, self.job)
        store, runs = self.records.store, [run for run in (self.run, self.other) if run is not None]

        async def piece(after: int, upto: int) -> tuple[list[StoreRow], list[StoreRow]]:
            own = await verdicts(store, self.run, after, upto)
            return own, await verdict_values(store, self.other, after, upto) if self.other else []

        async for own, others in pieces(store, runs, piece, progress, MOST_AT_ONCE):
            self._add(found, own, by_row(others), subjects)
            await asyncio.sleep(0)
        return found

    def _add(self, found: WrongRows, samples: Iterable[Any], others: dict[int, float], subjects: Sequence[str]) -> None:
        mine = [one for one in samples if one["reason"] != "dropped" and (self.kept is None or one["row"] in self.kept)]
        means, first = by_row(mine), dict[int, Any]()
        for one in mine:
            found.answers.add(one["row"], one["reason"], one["extracted"], one["expected"])
            if one["value"] is None or one["value"] < 1:
                first.setdefault(one["row"], one)
        for row, one in first.items():
            subject = subjects[row] if row < len(subjects) else ""
            wrong = WrongRow(row, one["repeat"], one["reason"], subject, one["expected"], one["extracted"])
            found.add(wrong, was_right=row in means and others.get(row, 0.0) > means[row])

    async def shown(self, found: WrongRows) -> tuple[ErrorSample, ...]:
        """Return the samples to show, with their texts."""
        chosen = found.chosen()
        texts = await stages_of(self.records.store, self.job.id, [(row.row, row.repeat) for _, row in chosen])
        names = await asyncio.to_thread(row_names, self.records, self.catalogue, self.job) if chosen else ()
        kind = effective_kind(self.catalogue, self.job)
        samples = []
        for was_right, row in chosen:
            stages = texts[row.row, row.repeat]
            after = str(row.row * CURSOR + row.repeat - 1)
            samples.append(ErrorSample(
                row=row.row, repeat=row.repeat, reason=row.reason, subject=row.subject, was_right=was_right,
                row_id=names[row.row] if row.row < len(names) else "",
                command=as_typed(["rwkvctl", "samples", self.job.name, "--after", after, "--limit", "1"]),
                cut=bool(stages) and is_cut(kind, stages), expected=row.expected[:LONGEST],
                answered=None if row.extracted is None else row.extracted[:LONGEST],
                question=stages[-1]["prompt"][-LONGEST:] if stages else "",
                output=stages[-1]["text"][-LONGEST:] if stages else "",
            ))  # fmt: skip
        return tuple(samples)
