"""Show one unfinished sample of a group of requests.

Nothing is stored for this, and the engine's thread is never blocked.
"""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rwkv_engine.scheduling.sample import Sample
from rwkv_engine.scheduling.tasks import AnyTask, GenerateTask
from rwkv_engine.tokenizer import Tokenizer
from rwkvctl.protocol.engine import GroupNow

SHOWN_TOKENS: Final = 500
"""How many of the newest tokens of a prompt, and of its sample, are shown."""


class RunningSample(NamedTuple):
    """A sample that is being generated, with its task and its number in it."""

    task: GenerateTask
    number: int
    sample: Sample

    @property
    def name(self) -> tuple[int, str, int]:
        """Sort key: ids by length first, so that the numbers in them sort by value, then the sample's number."""
        return len(self.task.id), self.task.id, self.number


def running_samples(tasks: Iterable[AnyTask]) -> Iterator[RunningSample]:
    """Yield every sample that has begun and not ended."""
    for task in tasks:
        if isinstance(task, GenerateTask):
            for number, sample in list(task.samples.items()):
                if sample.stop is None:
                    yield RunningSample(task, number, sample)


def live_sample(tasks: Iterable[AnyTask], name: tuple[str, int], step: int, tokenizer: Tokenizer) -> GroupNow:
    """Return the sample of this name, or the one `step` places after it. If it has ended, return the next one in
    order."""
    found = sorted(running_samples(tasks), key=lambda one: one.name)
    if not found:
        return GroupNow(count=0)
    wanted = (len(name[0]), *name)
    place = next((place for place, one in enumerate(found) if one.name >= wanted), 0)
    place = (place + step) % len(found)
    task, number, sample = found[place]
    return GroupNow(
        count=len(found),
        place=place,
        id=task.id,
        index=number,
        prompt=newest(task.prompt, tokenizer),
        text=newest(sample.ids, tokenizer),
        tokens=len(sample.ids),
        max_tokens=sample.rule.sampling.max_tokens,
    )


def newest(ids: Sequence[int], tokenizer: Tokenizer) -> str:
    """Return the end of a text that may go on, without half characters at either end of it."""
    data = tokenizer.decode_bytes(ids[-SHOWN_TOKENS:])
    if len(ids) > SHOWN_TOKENS:
        data = data.lstrip(bytes(range(0x80, 0xC0)))
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)
