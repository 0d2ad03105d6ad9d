"""Follow an item while it is generated: pieces of its samples' text as NDJSON lines {"id", "index", "text"}.

The engine's thread is never blocked: the growing lists of ids are read ten times a second.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from rwkv_engine.scheduling.sample import Sample
from rwkv_engine.scheduling.tasks import AnyTask, GenerateTask
from rwkv_engine.tokenizer import IncrementalText

READ_EVERY_S = 0.1


@dataclass(slots=True)
class _SampleReader:
    """A sample and how many of its tokens were sent."""

    sample: Sample
    text: IncrementalText = field(init=False)
    seen: int = 0

    def __post_init__(self) -> None:
        self.text = IncrementalText(self.sample.tokenizer)

    def new(self) -> str:
        """Return the text generated since the last call; a stop token has none."""
        ids = self.sample.ids[self.seen :]
        self.seen += len(ids)
        return "".join(map(self.text.feed, ids))


async def follow(task: AnyTask, gone: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield lines until the task has ended or the client has gone. A stop suffix may be sent before it is complete."""
    readers: dict[int, _SampleReader] = {}
    ended = False
    while not ended and not gone.is_set():
        ended = task.ended
        for index, sample in list(task.samples.items()) if isinstance(task, GenerateTask) else ():
            if piece := readers.setdefault(index, _SampleReader(sample)).new():
                yield msgspec.json.encode({"id": task.id, "index": index, "text": piece}) + b"\n"
        if not ended:
            await asyncio.sleep(READ_EVERY_S)
