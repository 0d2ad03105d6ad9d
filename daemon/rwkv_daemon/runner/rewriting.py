"""A job that has a writer rewrite the right samples of another job: what is asked, and how the replies are read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rwkv_daemon.runner.originals import Originals, Place, find_originals
from rwkv_daemon.runner.work_left import SampleQueues, SampleUnit
from rwkv_daemon.runner.writer_work import Ended, Tries, asked_of
from rwkv_daemon.workers.run_directory import (
    UNFAITHFUL,
    UNREADABLE,
    JobSpec,
    RewritingSource,
    SampleRecord,
    StageRecord,
)
from rwkv_data import writers
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.writers.writer_rule import UnusableReason, UnusableRewritingError, WriterRule
from rwkvctl.protocol.engine import GenerateItem

REASONS: Final[dict[UnusableReason, str]] = {"form": UNREADABLE, "not-faithful": UNFAITHFUL}
"""The reason of a sample whose rewriting cannot be used, by the rule's."""


@dataclass(slots=True)
class Rewriting:
    """The originals of a job, and what was asked about them so far. Samples that are not right, or were cut off, are
    left out."""

    spec: JobSpec
    rule: WriterRule
    kind: Kind
    rows: list[Row]
    originals: Originals
    tries: dict[Place, Tries] = field(default_factory=dict)

    @property
    def is_graded(self) -> bool:
        return True

    def left_out(self, work: SampleQueues) -> Iterator[SampleRecord]:
        """Take the samples out of the work that there is nothing to rewrite of, and yield a record for each."""
        waiting = list(work.pending)
        work.pending.clear()
        for unit in waiting:
            place = unit.row, unit.repeat
            if place in self.originals.lines:
                work.pending.append(unit)
            else:
                why = "cut off" if place in self.originals.cut_off else "not right"
                detail = f"{why} in {self.originals.name}"
                yield SampleRecord(row=unit.row, repeat=unit.repeat, value=None, reason="dropped", detail=detail)

    def before_asking(self, unit: SampleUnit) -> Ended | None:
        """Return the rewriting of a unit if it needs no call; it has the tokens of its original."""
        original = self.originals.read((unit.row, unit.repeat))
        text = self.rule.convert(original.text)
        if text is None:
            return None
        record = StageRecord(
            row=unit.row, repeat=unit.repeat, stage=0, text=text, stop="stop_token", generated=original.generated
        )
        return [(unit, record)]

    def prompt(self, unit: SampleUnit) -> str:
        """Return what the user said."""
        return asked_of(self.kind, self.rows[unit.row])

    def item(self, unit: SampleUnit, name: str) -> GenerateItem:
        """Return the request about a unit."""
        place = unit.row, unit.repeat
        original, tries = self.originals.read(place).text, self.tries.setdefault(place, Tries())
        return tries.item(self.rule.ask(self.prompt(unit), original), self.rule.room(original), name, self.spec.job)

    def read(self, unit: SampleUnit, reply: StageRecord) -> Ended | None:
        """Return the rewriting; or a sample without a grade, if none of the replies can be used; None if the writer is
        to be asked again."""
        place = unit.row, unit.repeat
        tries = self.tries[place]
        tries.take(reply)
        try:
            text = self.rule.read(self.originals.read(place).text, reply.text)
        except UnusableRewritingError as error:
            if tries.asked < self.rule.attempts:
                return None
            return [(unit, unusable(unit, error))]
        return [(unit, msgspec.structs.replace(reply, text=text, stop="stop_token"))]


def unusable(unit: SampleUnit, error: UnusableRewritingError) -> SampleRecord:
    """Return the sample of a unit of which nothing could be made."""
    return SampleRecord(
        row=unit.row, repeat=unit.repeat, value=None, reason=REASONS[error.reason], detail=str(error)
    )  # fmt: skip


def open_rewriting(spec: JobSpec, source: RewritingSource, kind: Kind, rows: list[Row]) -> Rewriting:
    """Return what a job rewrites. Raises DataError if its rule is not known in this version, or a completion is not
    there any more."""
    name, _, version = source.rule.partition("/")
    rule = writers.rewriting_rule(name)
    if rule.label != source.rule:
        raise RowsDamagedError(f"the rule {name} has version {rule.version} now, and not {version}: rewrite again")
    return Rewriting(spec, rule, kind, rows, find_originals(source, kind))
