"""The tokens of a sequence that are scored, and their scores. Torch-free."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Score `token` as the successor of the sequence's token at `position`, for part `part` of the task.

    `top`: how many of the most likely tokens at that position are reported with it.
    """

    position: int
    token: int
    part: int
    top: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """A token's log-probability, whether it was the most likely one, and the likeliest (id, log-probability) asked for.

    All come from the same floats: a token that is among `top` has the same log-probability there.
    """

    logprob: float
    best: bool
    top: tuple[tuple[int, float], ...] = ()
