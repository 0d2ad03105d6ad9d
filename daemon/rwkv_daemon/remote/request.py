"""One request: what is asked, who waits for the reply, and how often it has failed."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Protocol

from rwkv_daemon.remote.request_style import RequestStyle
from rwkv_daemon.remote.server_reply import ServerReply


class Question(Protocol):
    """What an OpenAI-compatible server is asked, as the exchange sees it."""

    @property
    def label(self) -> str:
        """What it is about, for people."""

    @property
    def route(self) -> str:
        """The path below the server's base URL."""

    @property
    def schema(self) -> str:
        """The JSON Schema that the reply is to follow, if the server takes one; empty if there is none."""

    @property
    def optional(self) -> frozenset[str]:
        """Fields of the body that not every server takes."""

    def droppable(self, style: RequestStyle) -> frozenset[str]:
        """Return the optional fields that it does without, where a server in this style refuses them."""

    @property
    def prompt_tokens(self) -> int:
        """Estimated number of prompt tokens, for rate limits and the budget."""

    @property
    def max_tokens(self) -> int:
        """The room for the reply, in tokens; the server's settings may ask for more."""

    def key(self, model: str) -> str:
        """Return the key of the reply in the cache: a hash over everything that decides it."""

    def body(self, model: str, style: RequestStyle, room: int) -> dict[str, Any]:
        """Return the JSON body, with only those optional fields that `style` says the server takes."""

    def read(self, body: bytes) -> ServerReply:
        """Return a response's body as a reply, still without its cost. Raises BadReplyError."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A question in the queue or in flight. `jobs` are those that wait for it; the first one pays."""

    key: str
    question: Question
    future: "asyncio.Future[ServerReply]"
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
