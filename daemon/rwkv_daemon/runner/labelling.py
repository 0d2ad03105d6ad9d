"""A job that has a writer label the rows of a benchmark: what is asked of a row, and how the replies are read.

A sample is a row; it ends without a grade, with the reason `labelled` and the value as what was extracted, or with the
reason `form` if no reply could be read. The labels are published when all rows have ended (`jobs/label_writer.py`).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from rwkv_daemon.runner.work_left import SampleQueues, SampleUnit
from rwkv_daemon.runner.writer_work import Ended, Tries, asked_of
from rwkv_daemon.workers.run_directory import LABELLED, UNREADABLE, JobSpec, SampleRecord, StageRecord
from rwkv_data import writers
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.writers.label_rule import LabelRule, UnreadableLabelError
from rwkvctl.protocol.engine import GenerateItem


@dataclass(slots=True)
class Labelling:
    """The rows that are labelled by a rule, and what was asked about them so far."""

    spec: JobSpec
    rule: LabelRule
    kind: Kind
    rows: list[Row]
    tries: dict[int, Tries] = field(default_factory=dict)

    @property
    def is_graded(self) -> bool:
        return False

    def left_out(self, _work: SampleQueues) -> Iterator[SampleRecord]:
        """Every row is asked about."""
        return iter(())

    def before_asking(self, _unit: SampleUnit) -> None:
        """Only the writer knows a label."""
        return

    def prompt(self, unit: SampleUnit) -> str:
        """Return what a model is asked: what the rule puts around it is the same for all."""
        return asked_of(self.kind, self.rows[unit.row])

    def item(self, unit: SampleUnit, name: str) -> GenerateItem:
        """Return the request about a row."""
        messages, schema = self.rule.ask(self.prompt(unit)), json.dumps(self.rule.schema, sort_keys=True)
        tries = self.tries.setdefault(unit.row, Tries())
        return tries.item(messages, self.rule.room, name, self.spec.job, schema)

    def read(self, unit: SampleUnit, reply: StageRecord) -> Ended | None:
        """Return the sample with its label, or with why there is none; None if the writer is to be asked again."""
        tries = self.tries[unit.row]
        tries.take(reply)
        label, unreadable = None, ""
        try:
            label = f"{self.rule.read(reply.text):g}"
        except UnreadableLabelError as error:
            if tries.asked < self.rule.attempts:
                return None
            unreadable = str(error)
        del self.tries[unit.row]
        reason = UNREADABLE if label is None else LABELLED
        record = SampleRecord(
            row=unit.row, repeat=unit.repeat, value=None, reason=reason, extracted=label, detail=unreadable
        )
        return [(unit, record)]


def open_labelling(spec: JobSpec, label: str, kind: Kind, rows: list[Row]) -> Labelling:
    """Return what a job labels by a rule (`difficulty/1`). Raises DataError if this version does not know the rule."""
    name, _, version = label.partition("/")
    rule = writers.label_rule(name)
    if rule.label != label:
        raise RowsDamagedError(f"the rule {name} has version {rule.version} now, and not {version}: label again")
    return Labelling(spec, rule, kind, rows)
