"""Follow an item while it is generated: pieces of its samples' text as NDJSON lines {"id", "index", "text"}.

The engine's thread is never asked or held up: a reader looks at the growing lists of ids ten times a second.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from rwkv_engine.scheduling.sample import Sample
from rwkv_engine.scheduling.tasks import AnyTask, GenerateTask
from rwkv_engine.tokenizer import IncrementalText

LOOK_EVERY_S = 0.1


@dataclass(slots=True)
class _Reader:
    """One sample and how much of it was given out."""

    sample: Sample
    text: IncrementalText = field(init=False)
    seen: int = 0

    def __post_init__(self) -> None:
        self.text = IncrementalText(self.sample.tokenizer)

    def new(self) -> str:
        """The text that is new since the last look; a stop token has none."""
        ids = self.sample.ids[self.seen :]
        self.seen += len(ids)
        return "".join(map(self.text.feed, ids))


async def follow(task: AnyTask, gone: asyncio.Event) -> AsyncIterator[bytes]:
    """Lines until the task has ended or the client has gone. A stop suffix may show before it is recognised."""
    readers: dict[int, _Reader] = {}
    ended = False
    while not ended and not gone.is_set():
        ended = task.ended
        for index, sample in list(task.samples.items()) if isinstance(task, GenerateTask) else ():
            if piece := readers.setdefault(index, _Reader(sample)).new():
                yield msgspec.json.encode({"id": task.id, "index": index, "text": piece}) + b"\n"
        if not ended:
            await asyncio.sleep(LOOK_EVERY_S)
