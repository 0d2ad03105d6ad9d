"""A chat request as a judge's rule wants it."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from rwkv_daemon.remote.request_style import RequestStyle, response_format
from rwkv_daemon.remote.server_reply import CHAT, ServerReply, chat_reply, estimated_tokens, tidy
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
    def route(self) -> str:
        return CHAT

    @property
    def optional(self) -> frozenset[str]:
        return frozenset({"temperature"})

    def droppable(self, _style: RequestStyle) -> frozenset[str]:
        """Return the fields that a server may refuse: a judge's verdict does not depend on them."""
        return self.optional

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

    def body(self, model: str, style: RequestStyle, room: int) -> dict[str, Any]:
        """Return the JSON body of a chat completion request."""
        document: dict[str, Any] = {"model": model, "messages": self.messages, style.length_field: room}
        if style.takes("temperature"):
            document["temperature"] = self.temperature
        if style.structured:
            document |= response_format(self.rule.replace("/", "-").replace(".", "-"), self.schema)
        return document

    def read(self, body: bytes) -> ServerReply:
        """Return a response's body as a reply, made safe. Raises BadReplyError."""
        return chat_reply(body, self.chars)
