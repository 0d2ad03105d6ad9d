"""Judge rules: what to ask another model about an answer, and how to read its replies.

A rule is a value without I/O: the daemon's judge service sends what `ask` returns to any OpenAI-compatible endpoint and
hands the replies to `read`. A reply that cannot be read is asked for again; after `attempts` of them the sample stays
unjudged. Nothing here ever turns a missing verdict into a wrong answer.

Name and version of a rule enter the grade key, so `version` changes with every change of a prompt or of the reading.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from rwkv_data.definition.answer import Answer
from rwkv_data.definition.stage import Row

Message: TypeAlias = Mapping[str, str]
Messages: TypeAlias = tuple[Message, ...]
"""One chat request: messages with `role` and `content`."""
Ask: TypeAlias = Callable[[Row, str, Answer], tuple[Messages, ...]]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """A judge's verdict on one sample. `value` is 1 for right, 0 for wrong, between them for draws; `parts` are further
    measures of the sample, `extracted` is the answer as the judge read it, where the rule asks for that."""

    value: float
    detail: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    extracted: str = ""


@dataclass(frozen=True, kw_only=True)
class ReviewRule(Generic[T]):
    """One way to ask a model about a sample and to read its replies.

    `ask(row, extracted answer, answer)` gives one chat request or more; `read(row, replies)` makes one finding of their
    replies, or None. `readable` says whether a single reply can be read, so that only an unreadable one is asked again.
    `schema` is the JSON Schema of a structured reply, for endpoints that take one; the reading must do without.
    """

    name: str
    version: str
    ask: Ask
    read: Callable[[Row, tuple[str, ...]], T | None]
    readable: Callable[[str], bool]
    schema: Mapping[str, object] | None = None
    max_tokens: int = 1024
    temperature: float = 0.0
    attempts: int = 3


@dataclass(frozen=True, kw_only=True)
class JudgeRule(ReviewRule[JudgeVerdict]):
    """A rule whose replies give a verdict."""

    @classmethod
    def single(
        cls,
        name: str,
        version: str,
        ask: Callable[[Row, str, Answer], Messages],
        verdict: Callable[[str], JudgeVerdict | None],
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int = 1024,
    ) -> "JudgeRule":
        """Return a rule of one request, whose reply is read without the row."""
        return cls(
            name=name,
            version=version,
            ask=lambda row, extracted, answer: (ask(row, extracted, answer),),
            read=lambda _, replies: verdict(replies[0]) if len(replies) == 1 else None,
            readable=lambda reply: verdict(reply) is not None,
            schema=schema,
            max_tokens=max_tokens,
        )
