"""What the judge service needs to remember replies, so that none is paid for twice. The daemon keeps them in its store.

A key names judge model, rule and messages.
"""

from typing import Protocol

from rwkv_daemon.judge.chat_completion import ChatReply


class VerdictCache(Protocol):
    """Where the service stores replies."""

    async def get(self, key: str) -> ChatReply | None:
        """Return the reply under a key, or None."""

    async def put(self, key: str, reply: ChatReply) -> None:
        """Store a reply; when this returns, it survives a crash."""
