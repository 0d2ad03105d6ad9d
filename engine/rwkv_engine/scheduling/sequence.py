"""A strand: one recurrent state in one slot, what it is still to be fed and what is to come out. Torch-free.

A task is done by strands. A root strand feeds the prompt; where the prompt has several endings (samples, choices) its
state is saved once and each ending is a strand that starts from that snapshot.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from rwkv_engine.scheduling.sample import Sample

if TYPE_CHECKING:
    from rwkv_engine.scheduling.tasks import AnyTask


@dataclass(eq=False, slots=True)
class Snapshot:
    """A state outside the pool, with the hidden vector of its last token; `length` tokens lie behind it.

    `scores`: those of the tokens behind it by their place, if they were asked for; they fill up as outcomes come.
    """

    length: int
    payload: object
    size_bytes: int
    scores: "Mapping[int, Score] | None" = None


class States(Protocol):
    """The slots' states, as the scheduler sees them. Calls take effect in the order of the steps that are launched."""

    @property
    def size_bytes(self) -> int:
        """Of one saved state."""

    def clear(self, slot: int) -> None:
        """Make the slot's state that of an empty sequence."""

    def save(self, slot: int) -> object:
        """A copy of the slot's state. Raises OutOfMemory."""

    def load(self, slot: int, payload: object) -> None:
        """Put a saved state into the slot, bit for bit, from wherever it lies."""

    def spill(self, payload: object) -> object:
        """The same state in the host's memory. Raises OutOfMemory."""


@dataclass(frozen=True, slots=True)
class Target:
    """Score `token` as the successor of the strand's token at `position`, for part `part` of the task.

    `top`: how many of the most likely tokens there are wanted beside it.
    """

    position: int
    token: int
    part: int
    top: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """A token's log-probability, whether it was the most likely one, and the likeliest (id, log-probability) asked for.

    All from the same floats, so that a token among `top` has there exactly its own `logprob`.
    """

    logprob: float
    best: bool
    top: tuple[tuple[int, float], ...] = ()


@dataclass(eq=False, slots=True)
class Strand:
    """`tokens` are fed after `origin`; then `sample` goes on token by token if there is one.

    Steps are launched before the outcome of the one before is known, so a strand counts what was launched: `fed` of its
    `tokens`, `drawn` draws; `replayed` of its sample's ids were added to `tokens` when it was set back. `marks`:
    positions at which the state goes to the prefix cache.
    """

    task: "AnyTask"
    part: int
    tokens: Sequence[int]
    origin: Snapshot | None = None
    targets: Sequence[Target] = ()
    sample: Sample | None = None
    marks: list[int] = field(default_factory=list)
    root: bool = False
    begun: bool = False
    decoding: bool = False
    fed: int = 0
    drawn: int = 0
    replayed: int = 0
    ordered: bool = field(init=False)

    def __post_init__(self) -> None:
        self.ordered = all(a.position <= b.position for a, b in pairwise(self.targets))

    @property
    def launched(self) -> bool:
        """Whether all of `tokens` were launched."""
        return self.begun and self.fed == len(self.tokens)

    def next_mark(self) -> int:
        """Where the present chunk must end at the latest."""
        return min((mark for mark in self.marks if mark > self.fed), default=len(self.tokens))

    def targets_in(self, start: int, end: int) -> Sequence[Target]:
        """Targets of positions start <= p < end; only a root of many choices has them out of order, and few."""
        if self.ordered:
            low, high = (bisect_left(self.targets, place, key=lambda target: target.position) for place in (start, end))
            return self.targets[low:high]
        return [target for target in self.targets if start <= target.position < end]

    def launch(self, tokens: int, *, draws: bool) -> None:
        """Count a step that was launched: so many of `tokens`, and a draw."""
        self.begun = True
        self.fed += tokens
        self.drawn += draws
        self.decoding = self.sample is not None and self.launched

    def set_back(self) -> None:
        """Start over from `origin`, what was generated and scored so far kept. Every outcome must have been applied."""
        if self.begun:
            self.targets = [target for target in self.targets if target.position >= self.fed]
        if self.sample is not None:
            self.tokens = (*self.tokens, *self.sample.ids[self.replayed :])
            self.replayed = self.drawn = len(self.sample.ids)
        if self.decoding:
            self.root, self.marks = False, []
        self.begun, self.decoding, self.fed = False, False, 0
