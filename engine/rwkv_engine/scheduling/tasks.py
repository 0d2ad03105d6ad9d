"""The items of requests as tasks: the sequences that each consists of, and how its answer is built. Torch-free."""

import math
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass, field

from rwkv_engine.scheduling.sample import Sample, SampleRule
from rwkv_engine.scheduling.sequence import PromptTail, Sequence
from rwkv_engine.scheduling.snapshots import Snapshot
from rwkv_engine.scheduling.token_scores import Score, Target
from rwkv_engine.tokenizer import Tokenizer
from rwkvctl.protocol.engine import ContinuationScore, Generated, Scored, TokenLogprob, Usage

Result = Generated | Scored
Sink = Callable[[Result], None]
MAX_PROMPT_TOKENS = 1 << 20
NOT_FINITE = "the model's output is not finite"


@dataclass(eq=False, slots=True, kw_only=True)
class TaskBase:
    """The fields that the scheduler and the server need of any task. `sink` takes each answer, on the engine's
    thread."""

    id: str
    sink: Sink
    priority: int = 0
    group: str = ""
    prompt: tuple[int, ...] = ()
    tail: PromptTail | None = None
    open_sequences: int = 0
    cached: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Echo:
    """Asks for the scores of a prompt's tokens from `start` on, with the `top` likeliest tokens at each position."""

    start: int
    top: int


@dataclass(eq=False, slots=True, kw_only=True)
class GenerateTask(TaskBase):
    """`keys` has one random key a sample; its length is the number of samples. `samples` are those that have begun.

    With `echo`, `scores` are those of prompt tokens by position. `on_token` is called whenever a sample has grown.
    """

    rule: SampleRule
    keys: tuple[int, ...]
    tokenizer: Tokenizer
    keep: bool = False
    echo: Echo | None = None
    on_token: Callable[[], None] | None = None
    answered: set[int] = field(default_factory=set)
    samples: dict[int, Sample] = field(default_factory=dict)
    scores: dict[int, Score] = field(default_factory=dict)

    @property
    def forks(self) -> bool:
        return len(self.keys) > 1

    @property
    def reusable(self) -> int:
        """The length of the longest prefix of the prompt that may come from a saved state."""
        return len(self.prompt)

    @property
    def saves(self) -> int:
        """The position at which the prompt's state is saved: its end; 0 if the prompt's tokens are scored."""
        return 0 if self.echo is not None else len(self.prompt)

    def fits(self, snapshot: Snapshot) -> bool:
        """Whether the prompt may start from a snapshot: the scores of its tokens must be known if they are asked
        for."""
        if self.echo is None:
            return True
        if snapshot.scores is None:
            return False
        behind = [snapshot.scores.get(place) for place in range(self.echo.start, snapshot.length)]
        return all(score is not None and len(score.top) >= self.echo.top for score in behind)

    def continue_after(self, ids: tuple[int, ...]) -> None:
        """Resolve the tail: the prompt is what was kept, then the tail's ids."""
        assert self.tail is not None
        self.prompt = ids + self.tail.ids

    def root(self, tokens: abc.Sequence[int], origin: Snapshot | None) -> Sequence:
        sample = None if self.forks else self._sample(0)
        behind = len(self.prompt) - len(tokens)
        if self.echo is not None and origin is not None and origin.scores is not None:
            known = range(self.echo.start, behind)
            self.scores |= {p: trimmed(origin.scores[p], self.echo.top) for p in known}
        return Sequence(self, 0, tokens, origin, targets=self._targets(behind), sample=sample, root=True)

    def _targets(self, behind: int) -> list[Target]:
        """Return the prompt's tokens that are still to be scored; `part` is a token's position."""
        if self.echo is None:
            return []
        places = range(max(self.echo.start, behind), len(self.prompt))
        return [Target(place - 1 - behind, self.prompt[place], place, self.echo.top) for place in places]

    def add(self, target: Target, score: Score) -> None:
        self.scores[target.part] = score

    def endings(self, snapshot: Snapshot) -> list[Sequence]:
        return [Sequence(self, i, (), snapshot, sample=self._sample(i)) for i in range(len(self.keys))]

    def _sample(self, index: int) -> Sample:
        sample = Sample(self.rule, self.keys[index], self.tokenizer, on_token=self.on_token)
        return self.samples.setdefault(index, sample)

    def answer(self, index: int, sample: Sample, ttl_s: float) -> Generated:
        """Return the answer for a finished sample."""
        self.answered.add(index)
        usage = Usage(prompt=len(self.prompt), cached=self.cached, generated=len(sample.ids))
        if sample.stop is None or sample.stop == "error":
            return Generated(id=self.id, index=index, stop="error", usage=usage, error=sample.fault or NOT_FINITE)
        return Generated(
            id=self.id, index=index, ids=sample.answer, text=sample.text, stop=sample.stop, usage=usage,
            prompt_ids=self.prompt, logprobs=logprobs_of(sample), ttl_s=ttl_s,
        )  # fmt: skip

    def failure(self, error: str) -> list[Result]:
        """Return an error for every sample that has no answer yet."""
        missing = [i for i in range(len(self.keys)) if i not in self.answered]
        return [Generated(id=self.id, index=i, stop="error", error=error) for i in missing]


def trimmed(score: Score, top: int) -> Score:
    """Return the score with no more of the likeliest tokens than asked for."""
    return Score(score.logprob, score.best, score.top[:top])


def logprobs_of(sample: Sample) -> tuple[TokenLogprob, ...]:
    """Return the log-probabilities of the tokens in a sample's answer; none if they were not asked for."""
    pairs = zip(sample.answer, sample.scores, strict=False)
    return tuple(TokenLogprob(token=token, logprob=score.logprob, top=score.top) for token, score in pairs)


@dataclass(frozen=True, slots=True)
class Continuation:
    """Ids that follow the context, of which those from `start` on are scored."""

    ids: tuple[int, ...]
    start: int


@dataclass(eq=False, slots=True)
class ScoreSum:
    logprob: float = 0.0
    tokens: int = 0
    greedy: bool = True


@dataclass(eq=False, slots=True, kw_only=True)
class ScoreTask(TaskBase):
    """Each of `continuations` includes its context, token 0 first; `prompt` is their common prefix and is fed once.

    A continuation's first token is scored from the prompt's last position, so single-token choices need no fork. With a
    tail, `continuations` hold only what follows the kept sample until `continue_after` puts its ids before them. With
    `top` of 0 or more, `scores` holds each token's score by position (of a single continuation), in addition to the
    sums.
    """

    continuations: tuple[Continuation, ...]
    top: int = -1
    scores: dict[int, Score] = field(default_factory=dict)
    sums: list[ScoreSum] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sums = [ScoreSum() for _ in self.continuations]
        self.prompt = shared_prefix(self.continuations)

    def continue_after(self, ids: tuple[int, ...]) -> None:
        """Resolve the tail: every continuation follows what was kept and the tail's ids."""
        assert self.tail is not None
        context = ids + self.tail.ids
        self.continuations = tuple(
            Continuation(context + one.ids, len(context) + one.start) for one in self.continuations
        )
        self.prompt = shared_prefix(self.continuations)

    @property
    def reusable(self) -> int:
        """A saved prefix must end before the first scored token, as it has the output of its last position only."""
        starts = [one.start for one in self.continuations if one.start < len(one.ids)]
        return min(len(self.prompt), *starts) if starts else 0

    @property
    def saves(self) -> int:
        """Where the prompt's state is saved."""
        return self.reusable

    def fits(self, snapshot: Snapshot) -> bool:
        """Whether the prompt may start from a snapshot: from any before the first scored token."""
        return snapshot.length <= self.reusable

    @property
    def forks(self) -> bool:
        return any(self._goes_on(one) for one in self.continuations)

    def root(self, tokens: abc.Sequence[int], origin: Snapshot | None) -> Sequence:
        shift = len(self.prompt) - len(tokens)
        targets = [
            t for part in range(len(self.continuations)) for t in self._targets(part, 0, len(self.prompt), shift)
        ]
        return Sequence(self, 0, tokens, origin, targets=targets, root=True)

    def endings(self, snapshot: Snapshot) -> list[Sequence]:
        """Return a sequence for each continuation that has more than one token after the prompt."""
        shared = len(self.prompt)
        return [
            Sequence(self, i, one.ids[shared:-1], snapshot, targets=self._targets(i, shared, len(one.ids), shared))
            for i, one in enumerate(self.continuations)
            if self._goes_on(one)
        ]

    def _goes_on(self, one: Continuation) -> bool:
        return one.start < len(one.ids) and len(one.ids) > len(self.prompt) + 1

    def _targets(self, part: int, low: int, high: int, shift: int) -> list[Target]:
        """Return the scored tokens whose predecessor's position p has low <= p < high, as positions less `shift`."""
        one = self.continuations[part]
        first, last = max(one.start, low + 1), min(len(one.ids), high + 1)
        return [Target(j - 1 - shift, one.ids[j], part, max(0, self.top)) for j in range(first, last)]

    def add(self, target: Target, score: Score) -> None:
        total = self.sums[target.part]
        if self.top >= 0:
            self.scores[self.continuations[target.part].start + total.tokens] = score
        total.logprob += score.logprob
        total.tokens += 1
        total.greedy &= score.best

    def answer(self) -> Scored:
        usage = Usage(prompt=len(self.prompt), cached=self.cached)
        if not all(math.isfinite(s.logprob) for s in self.sums):
            return Scored(id=self.id, error=NOT_FINITE, usage=usage)
        scores = [ContinuationScore(logprob=s.logprob, tokens=s.tokens, greedy=s.greedy) for s in self.sums]
        return Scored(id=self.id, scores=tuple(scores), usage=usage)

    def failure(self, error: str) -> list[Result]:
        return [Scored(id=self.id, error=error)]


def shared_prefix(continuations: abc.Sequence[Continuation]) -> tuple[int, ...]:
    """Return the common prefix of all continuations that have scored tokens, without the last token of any."""
    whole = [one.ids for one in continuations if one.start < len(one.ids)]
    if not whole:
        return ()
    low, high = min(whole), max(whole)  # the common prefix of all is that of the two extremes
    return low[: min(common_prefix(low, high), min(map(len, whole)) - 1)]


def common_prefix(a: abc.Sequence[int], b: abc.Sequence[int]) -> int:
    """Return how many leading ids two lists of ids share."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


AnyTask = GenerateTask | ScoreTask
