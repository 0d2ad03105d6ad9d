"""Caches of a judge's replies for tests of the service alone: in memory, and in a file that outlives the process."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rwkv_daemon.remote.server_reply import ServerReply, TokenUsage


@dataclass(slots=True)
class MemoryCache:
    """Remembers as long as the process lives."""

    replies: dict[str, ServerReply] = field(default_factory=dict)

    async def get(self, key: str) -> ServerReply | None:
        return self.replies.get(key)

    async def put(self, key: str, reply: ServerReply, job: str) -> None:
        self.replies[key] = reply


class FileCache:
    """Lines of JSON, read once, appended to: survives the death of the process, not that of the machine. A torn line
    is left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replies: dict[str, ServerReply] = {}
        for line in path.read_bytes().split(b"\n") if path.exists() else []:
            found = _read(line)
            if found:
                self.replies[found[0]] = found[1]

    async def get(self, key: str) -> ServerReply | None:
        return self.replies.get(key)

    async def put(self, key: str, reply: ServerReply, job: str) -> None:
        line = json.dumps({"key": key} | asdict(reply))
        with self.path.open("ab") as file:
            file.write(b"\n" + line.encode() + b"\n")  # a line of its own, also behind a torn one
        self.replies[key] = reply


def _read(line: bytes) -> tuple[str, ServerReply] | None:
    try:
        fields = json.loads(line)
        usage = TokenUsage(**fields.pop("usage"))
        return str(fields.pop("key")), ServerReply(**fields, usage=usage)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
