"""A job that has a writer rewrite the right samples of another job: what is asked, and how the replies are read.

The completions of the other job lie in the samples files of its attempts. They are found there by their place, so that
this process holds none of them but those that it is asking about.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from rwkv_daemon.runner.work_left import SampleQueues, SampleUnit
from rwkv_daemon.runner.writer_work import Place, Tries, asked_of
from rwkv_daemon.workers.run_directory import (
    UNFAITHFUL,
    UNREADABLE,
    JobSpec,
    RewritingSource,
    RunDir,
    SampleRecord,
    StageRecord,
    decode_record,
)
from rwkv_data import writers
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.writers.writer_rule import UnusableReason, UnusableRewritingError, WriterRule
from rwkvctl.protocol.engine import GenerateItem

REASONS: Final[dict[UnusableReason, str]] = {"form": UNREADABLE, "not-faithful": UNFAITHFUL}
"""The reason of a sample whose rewriting cannot be used, by the rule's."""


class StoredLine(NamedTuple):
    """Where a record stands: in which samples file, from which byte on, and how many bytes it has."""

    path: Path
    offset: int
    length: int


@dataclass(slots=True)
class Rewriting:
    """The originals of a job by their place, and what was asked about them so far. `cut_off` are right samples whose
    completion the token limit ended: they are left out, as those that are not right are."""

    spec: JobSpec
    rule: WriterRule
    kind: Kind
    rows: list[Row]
    originals: dict[Place, StoredLine]
    cut_off: set[Place]
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
            if place in self.originals:
                work.pending.append(unit)
            else:
                why = "cut off" if place in self.cut_off else "not right"
                detail = f"{why} in {self.spec.rewriting.name}" if self.spec.rewriting else why
                yield SampleRecord(row=unit.row, repeat=unit.repeat, value=None, reason="dropped", detail=detail)

    def original(self, unit: SampleUnit) -> StageRecord:
        """Return the completion that a unit rewrites. Raises RowsDamagedError if its file is not there any more."""
        where = self.originals[unit.row, unit.repeat]
        try:
            with where.path.open("rb") as file:
                file.seek(where.offset)
                record = decode_record(file.read(where.length))
        except OSError as error:
            raise RowsDamagedError(f"{where.path} cannot be read: {error.strerror or error}") from error
        if not isinstance(record, StageRecord):
            raise RowsDamagedError(f"{where.path} was changed: the completion of row {unit.row} is not at its place")
        return record

    def converted(self, unit: SampleUnit) -> StageRecord | None:
        """Return the rewriting of a unit if it needs no call; it has the tokens of its original."""
        original = self.original(unit)
        text = self.rule.convert(original.text)
        if text is None:
            return None
        return StageRecord(
            row=unit.row, repeat=unit.repeat, stage=0, text=text, stop="stop_token", generated=original.generated
        )

    def prompt(self, unit: SampleUnit) -> str:
        """Return what the user said."""
        return asked_of(self.kind, self.rows[unit.row])

    def item(self, unit: SampleUnit, name: str) -> GenerateItem:
        """Return the request about a unit."""
        original, tries = self.original(unit).text, self.tries.setdefault((unit.row, unit.repeat), Tries())
        return tries.item(self.rule.ask(self.prompt(unit), original), self.rule.room(original), name, self.spec.job)

    def read(self, unit: SampleUnit, reply: StageRecord) -> StageRecord | SampleRecord | None:
        """Return the rewriting; or a sample without a grade, if none of the replies can be used; None if the writer is
        to be asked again."""
        tries = self.tries[unit.row, unit.repeat]
        tries.take(reply)
        try:
            text = self.rule.read(self.original(unit).text, reply.text)
        except UnusableRewritingError as error:
            if tries.asked < self.rule.attempts:
                return None
            reason = REASONS[error.reason]
            return SampleRecord(row=unit.row, repeat=unit.repeat, value=None, reason=reason, detail=str(error))
        return msgspec.structs.replace(reply, text=text, stop="stop_token")


def open_rewriting(spec: JobSpec, source: RewritingSource, kind: Kind, rows: list[Row]) -> Rewriting:
    """Return what a job rewrites. Raises DataError if its rule is not known in this version, or a completion is not
    there any more."""
    name, _, version = source.rule.partition("/")
    rule = writers.rule(name)
    if rule.label != source.rule:
        raise RowsDamagedError(f"the rule {name} has version {rule.version} now, and not {version}: rewrite again")
    right = set(source.right)
    originals: dict[Place, StoredLine] = {}
    cut_off: set[Place] = set()
    for path in (RunDir(Path(source.folder)).samples(number) for number in source.attempts):
        for line, offset in lines_of(path):
            record = decode_record(line)
            if isinstance(record, StageRecord) and (place := (record.row, record.repeat)) in right:
                right.remove(place)  # of one that stands there twice the first counts, as in the store
                answer = Answer(record.text, (record.stop,) if record.stop else ())  # type: ignore[arg-type]
                if kind.stop(answer) == "length":
                    cut_off.add(place)
                else:
                    originals[place] = StoredLine(path, offset, len(line))
    if right:
        raise RowsDamagedError(f"{len(right):,} completions of {source.name} are not in {source.folder} any more")
    return Rewriting(spec, rule, kind, rows, originals, cut_off)


def lines_of(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the complete lines of a samples file, each with its offset; nothing if there is no such file."""
    try:
        with path.open("rb") as file:
            offset = 0
            for line in file:
                if line.endswith(b"\n"):
                    yield line[:-1], offset
                offset += len(line)
    except FileNotFoundError:
        return
