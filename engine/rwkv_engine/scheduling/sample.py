"""One sample while it is generated: its ids, its penalties, and when it stops. Torch-free."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rwkv_engine.constraints.guide import Grammar, Guide, leaves_nothing
from rwkv_engine.scheduling.stops import StopRule, SuffixMatcher, aligned
from rwkv_engine.scheduling.token_scores import Score
from rwkv_engine.tokenizer import Tokenizer
from rwkv_kernels.draw import Costs, Draw, Ids, Mask
from rwkvctl.protocol.engine import Sampling, StopKind


@dataclass(frozen=True, slots=True)
class SampleRule:
    """The rule by which all samples of one item are drawn and stopped, resolved for a vocabulary."""

    sampling: Sampling
    stops: StopRule
    banned: Ids | None
    unpenalised: frozenset[int]
    bias: tuple[Ids, NDArray[np.float32]] | None = None
    grammar: Grammar | None = None

    @property
    def penalised(self) -> bool:
        return bool(self.sampling.presence or self.sampling.frequency)


@dataclass(eq=False, slots=True)
class Sample:
    """`ids` are all generated tokens, the stop included, and `scores` theirs where asked for; `stop` is None while it
    goes on. `fault` explains the stop "error" where a reason is known. `on_token` is called after each token, so that a
    reader on another thread sees whole tokens only."""

    rule: SampleRule
    key: int
    tokenizer: Tokenizer
    ids: list[int] = field(default_factory=list)
    stop: StopKind | None = None
    fault: str = ""
    scores: list[Score] = field(default_factory=list)
    on_token: Callable[[], None] | None = None
    _lengths: list[int] = field(default_factory=list)
    _matcher: SuffixMatcher = field(init=False)
    _costs: Costs | None = None
    _costed: int = 0
    _cut: int | None = None
    _guide: Guide | None = None

    def __post_init__(self) -> None:
        self._matcher = SuffixMatcher(self.rule.stops.suffixes)
        if self.rule.penalised:
            s = self.rule.sampling
            self._costs = Costs(s.presence, s.frequency, s.decay, self.rule.unpenalised)

    def draw(self) -> Draw:
        """Return how the next token is to be drawn."""
        s = self.rule.sampling
        return Draw(
            s.temperature, s.top_k, s.top_p, self.key, len(self.ids), self.rule.banned, self._current_costs(),
            bias=self.rule.bias, logprobs=s.logprobs, allowed=self.allowed(),
        )  # fmt: skip

    def allowed(self) -> Mask | None:
        """Return the mask of tokens that may come next, None for all. It depends on all tokens so far, so the last must
        be known."""
        if self.rule.grammar is None:
            return None
        if self._guide is None:
            self._guide = self.rule.grammar.begin()
        return self._guide.allowed(self.ids)

    def _current_costs(self) -> tuple[Ids, NDArray[np.float32]] | None:
        """Return the costs of all tokens so far. Not called for a device that keeps its own ledger."""
        if self._costs is None:
            return None
        for token in self.ids[self._costed :]:
            self._costs.add(token)
        self._costed = len(self.ids)
        return self._costs.current()

    def add(self, token: int, logprob: "Score | None" = None) -> None:
        """Add a drawn token and decide whether it was the last; -1 stands for logits without a finite maximum."""
        if logprob is not None:
            self.scores.append(logprob)
        self._take(token)
        if self.stop is not None:
            self._guide = None  # the finished sample may be kept for long
        if self.on_token is not None:
            self.on_token()

    def _take(self, token: int) -> None:
        if token < 0:
            self.stop, self.fault = "error", self._why_none()
            return
        self.ids.append(token)
        if token in self.rule.stops.tokens:
            self.stop = "stop_token"
            return
        data = self.tokenizer.token_bytes(token)
        self._lengths.append(len(data))
        self._cut = self._matcher.push(data)
        if self._cut is not None:
            self.stop = "stop_suffix"
        elif len(self.ids) >= self.rule.sampling.max_tokens:
            self.stop = "length"

    def _why_none(self) -> str:
        """Return why there was no token to draw, as far as the constraint knows."""
        if self._guide is None:
            return ""
        if self._guide.fault:
            return f"the constraint cannot be followed any further: {self._guide.fault}"
        if leaves_nothing(self._guide.allowed(self.ids), self.rule.banned):
            return "the constraint allows only tokens that are banned"
        return ""

    @property
    def answer(self) -> tuple[int, ...]:
        """The ids without the stop: a token that begins before a stop suffix stays."""
        if self._cut is not None:
            return tuple(self.ids[: aligned(self._lengths, self._cut)])
        return tuple(self.ids[:-1] if self.stop == "stop_token" else self.ids)

    @property
    def data(self) -> bytes:
        """The generated bytes before the stop."""
        return bytes(self._matcher.data[: self._cut])

    @property
    def text(self) -> str:
        """The generated text before the stop; bytes that are not UTF-8 become U+FFFD."""
        return self.data.decode(errors="replace")
