"""One sample as it is generated: its ids, its penalties, and when it stops. Torch-free."""

from dataclasses import dataclass, field

from rwkv_engine.stops import StopRule, SuffixMatcher, aligned
from rwkv_engine.tokenizer import Tokenizer
from rwkv_kernels.draw import Costs, Draw, Ids
from rwkvctl.protocol.engine import Sampling, StopKind


@dataclass(frozen=True, slots=True)
class SampleRule:
    """What the samples of one item share, resolved for a vocabulary."""

    sampling: Sampling
    stops: StopRule
    banned: Ids | None
    unpenalised: frozenset[int]

    @property
    def penalised(self) -> bool:
        return bool(self.sampling.presence or self.sampling.frequency)


@dataclass(eq=False, slots=True)
class Sample:
    """`ids` are all generated tokens, the stop included; `stop` is None while it goes on."""

    rule: SampleRule
    key: int
    tokenizer: Tokenizer
    ids: list[int] = field(default_factory=list)
    stop: StopKind | None = None
    _lengths: list[int] = field(default_factory=list)
    _matcher: SuffixMatcher = field(init=False)
    _costs: Costs | None = None
    _cut: int | None = None

    def __post_init__(self) -> None:
        self._matcher = SuffixMatcher(self.rule.stops.suffixes)
        if self.rule.penalised:
            s = self.rule.sampling
            self._costs = Costs(s.presence, s.frequency, s.decay, self.rule.unpenalised)

    def draw(self) -> Draw:
        """How the next token is to be drawn."""
        s = self.rule.sampling
        costs = self._costs.current() if self._costs is not None else None
        return Draw(s.temperature, s.top_k, s.top_p, self.key, len(self.ids), self.rule.banned, costs)

    def add(self, token: int) -> None:
        """Take a drawn token and decide whether it was the last; -1 stands for logits without a finite maximum."""
        if token < 0:
            self.stop = "error"
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
        if self._costs is not None:
            self._costs.add(token)

    @property
    def answer(self) -> tuple[int, ...]:
        """The ids without the stop: a token that begins before a stop suffix stays."""
        if self._cut is not None:
            return tuple(self.ids[: aligned(self._lengths, self._cut)])
        return tuple(self.ids[:-1] if self.stop == "stop_token" else self.ids)

    @property
    def text(self) -> str:
        """The bytes before the stop; what is not UTF-8 there becomes U+FFFD."""
        return bytes(self._matcher.data[: self._cut]).decode(errors="replace")
