"""What the judge service needs to remember replies, so that none is paid for twice. The daemon keeps them in its store.

A key names judge model, rule and messages.
"""

from typing import Protocol

from rwkv_daemon.judge.replies import Reply


class VerdictCache(Protocol):
    """What the service needs to remember replies."""

    async def get(self, key: str) -> Reply | None:
        """The reply under a key, or None."""

    async def put(self, key: str, reply: Reply) -> None:
        """Keep a reply; when this returns it survives a crash."""
