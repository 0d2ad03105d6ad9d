"""What is to be scored of a sequence, and the scores. Torch-free."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Score `token` as the successor of the sequence's token at `position`, for part `part` of the task.

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
