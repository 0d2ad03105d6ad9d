"""What an exchange needs to remember replies, so that none is paid for twice. The daemon keeps them in its store.

A key names the model and everything that decides its reply.
"""

from typing import Protocol

from rwkv_daemon.remote.server_reply import ServerReply


class ReplyCache(Protocol):
    """A store of replies by key, which any request of the daemon may read and write."""

    async def get(self, key: str) -> ServerReply | None:
        """Return the reply under a key, or None."""

    async def put(self, key: str, reply: ServerReply, job: str) -> None:
        """Store a reply that a job has paid for; when this returns, it survives a crash."""
