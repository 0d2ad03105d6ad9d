"""Scores of continuations by /completions: the prompt is echoed with the log-probability of each of its tokens.

One request a continuation, as lm-evaluation-harness' `local-completions` does it. A server cuts a text into tokens as
it likes; it says in characters where each begins. A token counts if it ends beyond the context: one that lies across
the border belongs to the continuation.
"""

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from rwkv_daemon.remote.request_style import RequestStyle
from rwkv_daemon.remote.server_reply import (
    COMPLETIONS,
    ServerReply,
    UnfitReplyError,
    estimated_tokens,
    first_choice,
    json_object,
    reply_of,
)
from rwkvctl.protocol.engine import ContinuationScore, ScoreItem

NO_LOGPROBS: Final = "the server gives no log-probabilities of the prompt"
ROUNDING: Final = 1e-3
"""A log-probability may be so much above 0."""
_SPECIAL: Final = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")
"""A token that stands before a text and is no part of it: `<s>`, `<|begin_of_text|>`, `[CLS]`."""


@dataclass(frozen=True, slots=True)
class ScoreQuestion:
    """A request for the score of what stands in `prompt` from character `cut` on."""

    identity: str
    prompt: str
    cut: int
    label: str = ""

    @property
    def route(self) -> str:
        return COMPLETIONS

    @property
    def schema(self) -> str:
        return ""

    @property
    def optional(self) -> frozenset[str]:
        return frozenset({"temperature"})

    def droppable(self, _style: RequestStyle) -> frozenset[str]:
        """Return the fields that a server may refuse: a score does not depend on them."""
        return self.optional

    @property
    def prompt_tokens(self) -> int:
        """Estimated number of prompt tokens, for rate limits and the budget."""
        return estimated_tokens(len(self.prompt))

    @property
    def max_tokens(self) -> int:
        return 1  # not every server accepts 0; the one token is dropped

    def key(self, _model: str) -> str:
        """Return the key of the reply in the cache: a hash over the model's identity, the text, and the border."""
        plain = json.dumps([self.identity, "score", self.prompt, self.cut])
        return hashlib.sha256(plain.encode()).hexdigest()

    def body(self, model: str, style: RequestStyle, room: int) -> dict[str, Any]:
        """Return the JSON body of the request."""
        temperature = {"temperature": 0} if style.takes("temperature") else {}
        asked = {"prompt": self.prompt, style.length_field: room, "echo": True, "logprobs": 1}
        return {"model": model, **asked, **temperature}

    def read(self, body: bytes) -> ServerReply:
        """Return a reply whose text is the score as JSON. Raises BadReplyError."""
        document = json_object(body)
        choice = first_choice(document)
        score = continuation_score(choice, self.prompt, self.cut)
        return reply_of(document, choice, json.dumps([score.logprob, score.tokens, score.greedy]), len(self.prompt))


def score_in(reply: ServerReply) -> ContinuationScore:
    """Return the score that `ScoreQuestion.read` has put into a reply."""
    logprob, tokens, greedy = json.loads(reply.text)
    return ContinuationScore(logprob=logprob, tokens=tokens, greedy=greedy)


def border(item: ScoreItem) -> int:
    """Return the number of the context's characters before the continuation; by the rule of lm-eval, trailing blanks
    are the continuation's."""
    context = item.context or ""
    return len(context.rstrip() if item.split == "lm-eval" else context)


def continuation_score(choice: dict[str, Any], prompt: str, cut: int) -> ContinuationScore:
    """Return the score of the tokens beyond `cut`. Raises UnfitReplyError if they have no log-probabilities."""
    text, given = choice.get("text"), choice.get("logprobs")
    if not isinstance(text, str) or not text.startswith(prompt):
        raise UnfitReplyError(f"{NO_LOGPROBS}: it does not echo it")
    if not isinstance(given, dict):
        raise UnfitReplyError(NO_LOGPROBS)
    tokens, logprobs = _texts(given.get("tokens")), given.get("token_logprobs")
    if not tokens or not isinstance(logprobs, list) or len(logprobs) != len(tokens):
        raise UnfitReplyError(f"{NO_LOGPROBS} by token")
    first = 1 if logprobs[0] is None and (not tokens[0] or _is_special(tokens, prompt)) else 0
    starts = token_starts(tokens, given.get("text_offset"), prompt)
    counted = [at for at in beyond(starts, len(prompt), cut) if at >= first]
    found = [_logprob(logprobs[at]) for at in counted]
    tops = given.get("top_logprobs")
    greedy = all(_is_top(tops, at, logprob) for at, logprob in zip(counted, found, strict=True))
    return ContinuationScore(logprob=math.fsum(found), tokens=len(found), greedy=greedy)


def beyond(starts: Sequence[int], length: int, cut: int) -> list[int]:
    """Return the places of the tokens of a text of `length` characters that end beyond `cut`. A token without
    characters of its own (a part of a character's bytes) counts where it stands."""
    ends = [*starts[1:], length]
    inside = [at for at, start in enumerate(starts) if start < length]
    return [at for at in inside if starts[at] >= cut or min(ends[at], length) > cut]


def token_starts(tokens: Sequence[str], offsets: object, prompt: str) -> list[int]:
    """Return where each token begins in the prompt, in characters: as the server says, else as the tokens' lengths say.
    Raises UnfitReplyError if neither does."""
    starts = _places(offsets, len(tokens))
    if not starts and "".join(tokens).startswith((prompt, tokens[0] + prompt)):
        starts = [0, *accumulate(len(token) for token in tokens[:-1])]
    if not starts:
        raise UnfitReplyError(f"{NO_LOGPROBS}: it does not say where its tokens begin")
    if len(starts) > 1 and _is_special(tokens, prompt) and starts[1] - starts[0] == len(tokens[0]):
        return [0, *(start - len(tokens[0]) for start in starts[1:])]
    return starts


def _is_special(tokens: Sequence[str], prompt: str) -> bool:
    return bool(_SPECIAL.fullmatch(tokens[0])) and not prompt.startswith(tokens[0])


def _texts(tokens: object) -> list[str]:
    """Return a list of texts; none if it is something else."""
    texts = [token for token in tokens if isinstance(token, str)] if isinstance(tokens, list) else []
    return texts if isinstance(tokens, list) and len(texts) == len(tokens) else []


def _places(offsets: object, count: int) -> list[int]:
    """Return so many places in a text, in order; none if that is something else."""
    given = offsets if isinstance(offsets, list) and len(offsets) == count else []
    places = [at for at in given if isinstance(at, int) and not isinstance(at, bool) and at >= 0]
    fits = len(places) == len(given) and all(one <= other for one, other in pairwise(places))
    return places if fits else []


def _logprob(value: object) -> float:
    if value is None:
        raise UnfitReplyError(f"{NO_LOGPROBS} at its beginning; the context must not be empty")
    if not isinstance(value, int | float) or isinstance(value, bool) or not -math.inf < value <= ROUNDING:
        raise UnfitReplyError(f"{NO_LOGPROBS}: one is not a number below 0")
    return float(value)


def _is_top(tops: object, at: int, logprob: float) -> bool:
    """Whether a token is the likeliest; false if the server does not say which is."""
    top = tops[at] if isinstance(tops, list) and at < len(tops) else None
    values = [value for value in top.values() if isinstance(value, int | float)] if isinstance(top, dict) else []
    return bool(values) and logprob >= max(values)
