"""A sequence: one recurrent state in one slot, the tokens still to be fed to it, and what it generates. Torch-free.

A task runs as one sequence or more. The root sequence feeds the prompt; where the prompt has several endings (samples,
choices) its state is saved once, and each ending is a sequence that starts from that snapshot.
"""

from bisect import bisect_left
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from rwkv_engine.scheduling.sample import Sample
from rwkv_engine.scheduling.snapshots import Snapshot
from rwkv_engine.scheduling.token_scores import Score, Target


@dataclass(frozen=True, slots=True)
class PromptTail:
    """The rest of a prompt that continues a kept sample: the sample's id and index, and the ids to append."""

    id: str
    index: int
    ids: tuple[int, ...]


class Task(Protocol):
    """The task as the scheduler and the sequences see it; the module `tasks` defines both kinds of task."""

    id: str
    priority: int
    group: str
    prompt: tuple[int, ...]
    tail: PromptTail | None
    open_sequences: int
    cached: int
    ended: bool

    @property
    def sink(self) -> Callable[[Any], None]:
        """Takes each answer, on the engine's thread."""

    @property
    def reusable(self) -> int:
        """The longest prefix of the prompt that may come from a saved state."""

    @property
    def saves(self) -> int:
        """The position at which the prompt's state is saved."""

    @property
    def forks(self) -> bool:
        """Whether the prompt has several endings (samples or choices), each a sequence that starts from its state."""

    def fits(self, snapshot: Snapshot) -> bool:
        """Whether the prompt may start from this snapshot."""

    def continue_after(self, ids: tuple[int, ...]) -> None:
        """Resolve the tail: the prompt is what was kept, then the tail's ids."""

    def root(self, tokens: abc.Sequence[int], origin: Snapshot | None) -> "Sequence":
        """Return the sequence that feeds `tokens`, the rest of the prompt after `origin`."""

    def endings(self, snapshot: Snapshot) -> "abc.Sequence[Sequence]":
        """Return the sequences that go on from the prompt's end."""

    def add(self, target: Target, score: Score) -> None:
        """Record the score of a target token."""

    def failure(self, error: str) -> abc.Sequence[Any]:
        """Return an error for everything that has no answer yet."""


@dataclass(eq=False, slots=True)
class Sequence:
    """`tokens` are fed after `origin`; then `sample` goes on token by token if there is one.

    A step is launched before the outcome of the one before it is known, so a sequence counts what was launched: `fed`
    of its `tokens`, and `drawn` draws. `replayed` of its sample's ids were added to `tokens` when it was set back.
    `marks` are the positions at which the state goes to the prefix cache.
    """

    task: Task
    part: int
    tokens: abc.Sequence[int]
    origin: Snapshot | None = None
    targets: abc.Sequence[Target] = ()
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
        """Whether all of `tokens` were fed by launched steps."""
        return self.begun and self.fed == len(self.tokens)

    def next_mark(self) -> int:
        """Return where the present chunk must end at the latest."""
        return min((mark for mark in self.marks if mark > self.fed), default=len(self.tokens))

    def targets_in(self, start: int, end: int) -> abc.Sequence[Target]:
        """Return the targets of positions start <= p < end. Only the root of many choices has them out of order, and
        has few."""
        if self.ordered:
            low, high = (bisect_left(self.targets, place, key=lambda target: target.position) for place in (start, end))
            return self.targets[low:high]
        return [target for target in self.targets if start <= target.position < end]

    def launch(self, tokens: int, *, draws: bool) -> None:
        """Count a launched step that fed so many of `tokens` and, if `draws`, draws a token."""
        self.begun = True
        self.fed += tokens
        self.drawn += draws
        self.decoding = self.sample is not None and self.launched

    def set_back(self) -> None:
        """Start over from `origin`, but keep the generated tokens and scores. Every outcome must have been applied."""
        if self.begun:
            self.targets = [target for target in self.targets if target.position >= self.fed]
        if self.sample is not None:
            self.tokens = (*self.tokens, *self.sample.ids[self.replayed :])
            self.replayed = self.drawn = len(self.sample.ids)
        if self.decoding:
            self.root, self.marks = False, []
        self.begun, self.decoding, self.fed = False, False, 0
