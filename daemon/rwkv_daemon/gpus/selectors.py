"""Which GPUs an operator means. Pure: names and GPUs in, ids out."""

from collections.abc import Iterable, Mapping
from typing import Final

from rwkv_daemon.rules.gpu_facts import Gpu
from rwkvctl.protocol.errors import Exit, RefusedError

LEAST_PREFIX: Final = 3
"""Least number of letters of a UUID, besides the leading `GPU-`, that stand for it; fewer are taken for a mistake."""


def ids_of(words: Iterable[str], gpus: Mapping[str, Gpu]) -> list[str]:
    """Return the ids of named GPUs, each once. A name is an index (`3`, `3:1`; `3` alone for a card or all instances of
    a partitioned one), a UUID, or a unique beginning of one. Raises RefusedError."""
    found: dict[str, None] = {}
    for word in words:
        found.update(dict.fromkeys(named(word.strip(), gpus)))
    if not found:
        raise RefusedError("no-gpu-named", "No GPU is named.", "`rwkvctl gpus` lists them.", Exit.USAGE)
    return list(found)


def named(word: str, gpus: Mapping[str, Gpu]) -> list[str]:
    """Return the ids of the GPUs that one name means. Raises RefusedError if it means none or is ambiguous."""
    if by_index := [gpu.id for gpu in gpus.values() if word in indices(gpu)]:
        return by_index
    text = word.lower().removeprefix("gpu-").removeprefix("mig-")
    close = [i for i in gpus if i.lower().removeprefix("gpu-").removeprefix("mig-").startswith(text)]
    if len(text) < LEAST_PREFIX or not close:
        raise RefusedError("no-such-gpu", f"There is no GPU {word}.", "`rwkvctl gpus` lists them.", Exit.NOT_FOUND)
    if len(close) > 1:
        raise RefusedError(
            "ambiguous-gpu", f"{word} may mean {' or '.join(sorted(close))}.", "Give more of the UUID.", Exit.NOT_FOUND
        )
    return close


def indices(gpu: Gpu) -> set[str]:
    """Return the indices that name a GPU: `3`, and for an instance also `3:1`."""
    reading = gpu.reading
    return {str(reading.index)} | ({f"{reading.index}:{reading.slot}"} if reading.slot is not None else set())
