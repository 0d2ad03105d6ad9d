"""The answer of one sample, and its grade."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rwkvctl.protocol.engine import StopKind

Reason = Literal["right", "wrong", "no_answer", "timeout", "error", "unjudged", "dropped"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one sample: the last stage's text, or the log-likelihood of each choice.

    `stops` holds the stop kind of each stage that generated, first stage first; `earlier` the texts of the stages
    before the last. `greedy` says of each scored choice whether greedy decoding would have given just that.
    """

    text: str = ""
    stops: tuple[StopKind, ...] = ()
    logprobs: tuple[float, ...] = ()
    greedy: tuple[bool, ...] = ()
    earlier: tuple[str, ...] = ()

    @property
    def chosen(self) -> int | None:
        """The index of the likeliest choice (the first one on a tie), or None if nothing was scored."""
        return self.logprobs.index(max(self.logprobs)) if self.logprobs else None

    @property
    def tied(self) -> bool:
        """Whether more than one choice has the highest log-likelihood."""
        return self.logprobs.count(max(self.logprobs, default=0.0)) > 1

    @property
    def stop(self) -> StopKind:
        """How the engine ended the sample: an error or a length limit in any stage counts for the whole sample."""
        if "error" in self.stops:
            return "error"
        if "length" in self.stops:
            return "length"
        return self.stops[-1] if self.stops else "stop_token"


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one sample.

    `value` is None where there is none (`error`: something broke; `unjudged`: a judge has yet to speak): that is never
    a wrong answer, and holds the score back. `no_answer` and `timeout` (the answer took more processor time to check
    than any answer may) count as wrong and are counted apart. `dropped`: a search left the sample out on purpose.
    `route` names the rule that found the extracted text. `parts` are further measures of the same sample: a mean of
    one is a metric of that name, and sums of them make the corpus metrics.
    """

    value: float | None
    extracted: str | None
    expected: str
    reason: Reason
    detail: str = ""
    route: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
