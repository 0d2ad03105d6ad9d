"""What a job asks the writer about each of its samples, in place of the prompts of its kind."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from rwkv_daemon.rules import work_keys
from rwkv_daemon.runner.work_left import SampleQueues, SampleUnit
from rwkv_daemon.workers.run_directory import SampleRecord, StageRecord
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.judges.judge_rule import Messages
from rwkvctl.protocol.engine import GenerateItem, Sampling, Stops, Turn

Ended = list[tuple[SampleUnit, StageRecord | SampleRecord]]
"""Units, each with the completion that is to be graded, or with its finished sample."""
AGAIN_TEMPERATURE: Final = 0.3
"""Asking again at temperature 0 would give the same reply."""


@dataclass(frozen=True, slots=True)
class PartToGrade:
    """A text that is to be graded as an answer to a unit's row before anything else is asked about the unit. `take` is
    given the grade."""

    unit: SampleUnit
    text: str
    take: Callable[[SampleRecord], None]

    @property
    def as_sample(self) -> SampleUnit:
        """Return the text as the completion of a sample."""
        stage = StageRecord(row=self.unit.row, repeat=self.unit.repeat, stage=0, text=self.text, stop="stop_token")
        return SampleUnit(self.unit.row, self.unit.repeat, [stage])


class WriterWork(Protocol):
    """How a writer is asked about the samples of a job, and how its replies are read."""

    @property
    def is_graded(self) -> bool:
        """Whether what comes of a reply is graded as an answer."""

    def left_out(self, work: SampleQueues) -> Iterator[SampleRecord]:
        """Take the samples out of the work that the writer is not asked about, and yield a record for each."""

    def before_asking(self, unit: SampleUnit) -> Ended | PartToGrade | None:
        """Return what comes of a unit without a call, or what must be graded first; None if the writer must be
        asked."""

    def prompt(self, unit: SampleUnit) -> str:
        """Return what is stored as the prompt of a unit."""

    def item(self, unit: SampleUnit, name: str) -> GenerateItem:
        """Return the request about a unit."""

    def read(self, unit: SampleUnit, reply: StageRecord) -> Ended | None:
        """Return what has ended with a reply; None if there is more to be asked, or the same again."""


def asked_of(kind: Kind, row: Row) -> str:
    """Return what a user says of a row: the problem without its answer, as a model is asked it."""
    return "\n\n".join(turn.content for turn in kind.turns(row))


@dataclass(slots=True)
class Tries:
    """How often the writer was asked about a sample, and whether its last reply was cut off."""

    asked: int = 0
    cut: bool = False

    def take(self, reply: StageRecord) -> None:
        """Count a reply, and note whether it was cut off."""
        self.asked += 1
        self.cut = reply.stop == "length"

    def item(self, messages: Messages, room: int, name: str, job: int, schema: str = "") -> GenerateItem:
        """Return the next request. A reply that was cut off is asked for again with twice the room. The seed is the
        attempt's alone: where two samples, or two jobs, ask the same, one reply serves them."""
        return GenerateItem(
            id=f"{name}.{self.asked}",
            messages=tuple(
                Turn(role=message["role"], content=message["content"])  # type: ignore[arg-type]  # system or user
                for message in messages
            ),
            schema=schema,
            n=1,
            keys=(work_keys.random_key(0, 0, 0, self.asked),),
            sampling=Sampling(
                max_tokens=room * (2 if self.cut else 1), temperature=AGAIN_TEMPERATURE if self.asked else 0.0
            ),
            stops=Stops(),
            group=f"j{job}",
        )
