"""One chat request: what is asked, who waits for it, and how often it has failed."""

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from rwkv_daemon.judge.chat_completion import ChatReply, estimated_tokens, tidy
from rwkv_data.judges.judge_rule import Messages, ReviewRule


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """A chat request as a rule wants it. `attempt` counts earlier replies to it that could not be read."""

    rule: str
    messages: Messages
    schema: str
    max_tokens: int
    temperature: float
    attempt: int = 0
    label: str = ""

    @classmethod
    def of(cls, rule: ReviewRule[Any], messages: Messages, attempt: int, *, wider: bool, label: str) -> "JudgeQuestion":
        """Return the question for one attempt. `wider` doubles the room for the reply, as the last one was cut off.
        Asking again at temperature 0 would give the same reply, so the temperature is raised a little."""
        return cls(
            rule=f"{rule.name}/{rule.version}",
            messages=tuple({role: tidy(text) for role, text in message.items()} for message in messages),
            schema=json.dumps(rule.schema, sort_keys=True) if rule.schema else "",
            max_tokens=rule.max_tokens * (2 if wider else 1),
            temperature=rule.temperature if attempt == 0 else max(rule.temperature, 0.3),
            attempt=attempt,
            label=label,
        )

    @property
    def chars(self) -> int:
        return sum(len(message.get("content", "")) for message in self.messages)

    @property
    def prompt_tokens(self) -> int:
        """Estimated number of prompt tokens, for rate limits and the budget."""
        return estimated_tokens(self.chars + len(self.schema))

    def key(self, model: str) -> str:
        """Return the key of the reply in the cache: a hash over the judge, the rule, everything it is shown, and the
        attempt."""
        plain = [model, self.rule, [dict(message) for message in self.messages], self.attempt]
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A question in the queue or in flight. `jobs` are those that wait for it; the first one pays."""

    key: str
    question: JudgeQuestion
    future: "asyncio.Future[ChatReply]"
    jobs: list[str]
    waiters: int = 0
    """How many tasks wait for the reply."""

    queued: bool = False
    known: bool = False
    """Whether the reply came from the cache."""

    not_before: float = 0.0
    """When it may be sent again; `asked_at` is when it was sent last."""

    asked_at: float = 0.0
    tries: int = 0
    denials: int = 0
    successes_seen: int = -1
    """The pool's successes at its last failure: only a failure after a further success counts against the request."""

    last_error: str = ""
    key_name: str = field(default="")
