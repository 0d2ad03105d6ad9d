"""Compile items into tasks: check them and resolve them for a vocabulary. Raises ItemError for the first fault."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from rwkv_engine.constraints.compiled import Grammars
from rwkv_engine.errors import ItemError
from rwkv_engine.scheduling.sample import SampleRule
from rwkv_engine.scheduling.sequence import PromptTail
from rwkv_engine.scheduling.stops import resolve
from rwkv_engine.scheduling.tasks import (
    MAX_PROMPT_TOKENS,
    Continuation,
    GenerateTask,
    ScoreTask,
    Sink,
    common_prefix,
)
from rwkv_engine.tokenizer import END_OF_TEXT, Tokenizer
from rwkv_kernels.draw import MAX_BIASES, MAX_SPARED, MAX_STOPS, Ids
from rwkvctl.protocol.engine import Continue, GenerateItem, Sampling, ScoreItem, Stops

MAX_SAMPLES = 4096
MAX_TOP = 20
MAX_BIAS = 100.0
KEY_LIMIT = 1 << 64


class PromptTooLongError(ItemError):
    """The prompt has more tokens than the engine takes."""


@dataclass(slots=True)
class Compiler:
    """Compiles items into tasks for one vocabulary."""

    tokenizer: Tokenizer
    grammars: Grammars = field(init=False)

    def __post_init__(self) -> None:
        self.grammars = Grammars(self.tokenizer)

    def generate(self, item: GenerateItem, sink: Sink) -> GenerateTask:
        check_samples(item)
        check_sampling(item.sampling)
        _one_of(item.text, item.ids, item.continue_from, "text, ids, continue_from")
        return GenerateTask(
            id=item.id,
            sink=sink,
            priority=item.priority,
            group=item.group,
            prompt=() if item.continue_from else tuple(self.fresh(item.text, item.ids, item.tail)),
            tail=self._tail(item.continue_from),
            rule=self._rule(item),
            keys=tuple(item.keys[i] if i < len(item.keys) else i for i in range(item.n)),
            tokenizer=self.tokenizer,
            keep=item.keep,
        )

    def score(self, item: ScoreItem, sink: Sink) -> ScoreTask:
        _one_of(item.context, item.context_ids, item.continue_from, "context, context_ids, continue_from")
        return ScoreTask(
            id=item.id,
            sink=sink,
            priority=item.priority,
            group=item.group,
            tail=self._tail(item.continue_from),
            continuations=tuple(self._continuation(item, text) for text in item.continuations),
        )

    def _rule(self, item: GenerateItem) -> SampleRule:
        banned = self._tokens(item.sampling.banned, "banned")
        rule = SampleRule(
            sampling=item.sampling,
            stops=resolve(self._stops(item), self.tokenizer),
            banned=_array(banned),
            unpenalised=frozenset(self._tokens(item.sampling.unpenalised, "unpenalised")),
            bias=self._bias(item.sampling.logit_bias),
        )
        check_room("banned and logit_bias", len(banned) + len(item.sampling.logit_bias), MAX_BIASES)
        check_room("unpenalised", len(rule.unpenalised), MAX_SPARED)
        check_room("stop", len(rule.stops.tokens), MAX_STOPS)
        if item.constraint is not None:
            return replace(rule, grammar=self.grammars.compiled(item.constraint))
        return rule

    def _stops(self, item: GenerateItem) -> Stops:
        """Return the stops of an item. With a constraint token 0 is one, as only it may follow a complete text."""
        return item.stops if item.constraint is None else structs.replace(item.stops, end_of_text=True)

    def _bias(self, pairs: tuple[tuple[int, float], ...]) -> tuple[Ids, NDArray[np.float32]] | None:
        bias = dict(pairs)
        if not bias:
            return None
        if bad := next((i for i in bias if not 0 <= i < self.tokenizer.size), None):
            raise ItemError(f"logit_bias: the id {bad} is not in a vocabulary of {self.tokenizer.size}")
        return np.array(list(bias), np.int64), np.array(list(bias.values()), np.float32)

    def _tokens(self, texts: tuple[str, ...], what: str) -> list[int]:
        """Return the ids of single tokens. A byte vocabulary ignores longer texts, which are no token of it; World
        refuses what is not one of its tokens."""
        ids = []
        for text in texts:
            token = self.tokenizer.single(text)
            if token is not None:
                ids.append(token)
            elif not text or not self.tokenizer.is_bytes:
                raise ItemError(f"{what}: {text!r} is not a single token of this vocabulary")
        return ids

    def _tail(self, origin: Continue | None) -> PromptTail | None:
        return PromptTail(origin.id, origin.index, tuple(self.tokenizer.encode(origin.tail))) if origin else None

    def fresh(self, text: str | None, ids: tuple[int, ...] | None, tail: str = "") -> list[int]:
        """Return the ids of a prompt from its beginning: token 0 first. A tail may follow ids, as it follows a kept
        sample."""
        if tail and ids is None:
            raise ItemError("tail goes with ids only; append it to text instead")
        if ids is None:
            return fitting([END_OF_TEXT, *self.tokenizer.encode(text or "")])
        if (bad := next((i for i in ids if not 0 <= i < self.tokenizer.size), None)) is not None:
            raise ItemError(f"the id {bad} is not in a vocabulary of {self.tokenizer.size}")
        begin = [END_OF_TEXT] if not ids or ids[0] != END_OF_TEXT else []
        return fitting([*begin, *ids, *self.tokenizer.encode(tail)])

    def _continuation(self, item: ScoreItem, text: str) -> Continuation:
        """Return context and continuation as one, with the start of the scored part. After ids (or a kept sample) the
        continuation is encoded by itself, as the bytes of ids need not be a text."""
        if item.continue_from is not None:
            return Continuation(tuple(self.tokenizer.encode(text)), 0)
        if item.context is None:
            context = self.fresh(None, item.context_ids, item.tail)
            return Continuation(tuple(fitting([*context, *self.tokenizer.encode(text)])), len(context))
        head, rest = item.context, text
        if item.split == "lm-eval":
            head = item.context.rstrip()
            rest = item.context[len(head) :] + text
        context, full = self.fresh(head, None), self.fresh(head + rest, None)
        start = len(context) if item.split == "lm-eval" else common_prefix(context, full)
        return Continuation(tuple(full), min(start, len(full)))


def fitting(ids: list[int]) -> list[int]:
    """Return the ids, token 0 first. Raises PromptTooLongError."""
    if len(ids) - 1 > MAX_PROMPT_TOKENS:
        raise PromptTooLongError(f"the prompt has {len(ids) - 1} tokens; the engine takes {MAX_PROMPT_TOKENS} at most")
    return ids


def check_samples(item: GenerateItem) -> None:
    """Check the number of samples and of their keys. Raises ItemError."""
    if not 1 <= item.n <= MAX_SAMPLES:
        raise ItemError(f"n is {item.n}; it must be between 1 and {MAX_SAMPLES}")
    if len(item.keys) > item.n:
        raise ItemError(f"there are {len(item.keys)} keys for {item.n} samples; send one for each, or none")
    if not all(0 <= key < KEY_LIMIT for key in item.keys):
        raise ItemError("every key must be an unsigned 64-bit number")


def check_sampling(sampling: Sampling) -> None:
    """Check the ranges of the sampling parameters. Raises ItemError."""
    if sampling.max_tokens < 1:
        raise ItemError(f"max_tokens is {sampling.max_tokens}; it must be at least 1")
    if not (math.isfinite(sampling.temperature) and sampling.temperature >= 0.0):
        raise ItemError(f"temperature is {sampling.temperature}; it must be 0 (greedy) or more")
    if sampling.top_k < 0:
        raise ItemError(f"top_k is {sampling.top_k}; it must be 0 (off) or more")
    if not 0.0 <= sampling.top_p <= 1.0:
        raise ItemError(f"top_p is {sampling.top_p}; it must be between 0 and 1 (off)")
    if not all(map(math.isfinite, (sampling.presence, sampling.frequency, sampling.decay))):
        raise ItemError("penalties must be finite numbers")
    if not -1 <= sampling.logprobs <= MAX_TOP:
        raise ItemError(f"logprobs is {sampling.logprobs}; it must be between -1 (off) and {MAX_TOP}")
    if not all(abs(bias) <= MAX_BIAS for _, bias in sampling.logit_bias):
        raise ItemError(f"every logit_bias must be between -{MAX_BIAS:g} and {MAX_BIAS:g}")


def check_room(what: str, count: int, most: int) -> None:
    """Check how many tokens a sample names, as a GPU holds a table of them for every slot. Raises ItemError."""
    if count > most:
        raise ItemError(f"{what}: {count} tokens are given; the engine takes {most} at most")


def _one_of(first: object, second: object, third: object, names: str) -> None:
    if sum(value is not None for value in (first, second, third)) != 1:
        raise ItemError(f"set exactly one of {names}")


def _array(ids: list[int]) -> Ids | None:
    return np.array(ids, np.int64) if ids else None
