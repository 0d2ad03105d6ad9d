"""A strand: one recurrent state in one slot, what it is still to be fed and what is to come out. Torch-free.

A task is done by strands. A root strand feeds the prompt; where the prompt has several endings (samples, choices) its
state is saved once and each ending is a strand that starts from that snapshot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rwkv_engine.sample import Sample

if TYPE_CHECKING:
    from rwkv_engine.tasks import AnyTask


@dataclass(eq=False, slots=True)
class Snapshot:
    """A state outside the pool, with the hidden vector of its last token; `length` tokens lie behind it."""

    length: int
    payload: object
    size_bytes: int


class States(Protocol):
    """The slots' states, as the scheduler sees them."""

    size_bytes: int

    def clear(self, slot: int) -> None:
        """Make the slot's state that of an empty sequence."""

    def save(self, slot: int) -> object:
        """A copy of the slot's state."""

    def load(self, slot: int, payload: object) -> None:
        """Put a saved state into the slot."""


@dataclass(frozen=True, slots=True)
class Target:
    """Score `token` as the successor of the strand's token at `position`, for part `part` of the task."""

    position: int
    token: int
    part: int


@dataclass(eq=False, slots=True)
class Strand:
    """`tokens` are fed after `origin`; then `sample` goes on token by token if there is one.

    `marks`: positions at which the state goes to the prefix cache. `fed` counts the tokens that are behind it.
    """

    task: "AnyTask"
    part: int
    tokens: Sequence[int]
    origin: Snapshot | None = None
    targets: Sequence[Target] = ()
    sample: Sample | None = None
    marks: list[int] = field(default_factory=list)
    root: bool = False
    decoding: bool = False
    fed: int = 0

    def next_mark(self) -> int:
        """Where the present chunk must end at the latest."""
        return min((mark for mark in self.marks if mark > self.fed), default=len(self.tokens))

    def targets_in(self, start: int, end: int) -> list[Target]:
        """Targets of positions start <= p < end."""
        return [target for target in self.targets if start <= target.position < end]
