"""A checkpoint's tensors one after the other, in the order of the file, with bounded memory beside the result.

Files are read, not mapped: positioned reads cost no page faults, and a file that is truncated meanwhile gives an error
instead of a SIGBUS. For a GPU the bytes go through two small pinned buffers, so that the next piece is read while the
one before is on its way; conversion to another type happens on the GPU.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, Self

import torch
from torch import Tensor

from rwkv_weights.errors import UnreadableCheckpointError
from rwkv_weights.formats.entry import Entry
from rwkv_weights.formats.finite import FiniteCheck
from rwkv_weights.formats.index import Index
from rwkv_weights.formats.load import view
from rwkv_weights.local.checkpoint_files import open_plain

PIECE_BYTES: Final = 32 * 1024 * 1024
"""The size of a pinned buffer, of which there are two. From this size on a copy's fixed cost is negligible."""

AHEAD_BYTES: Final = 64 * 1024 * 1024
"""How many bytes the kernel is asked to read ahead, so that the disk works while numbers are converted."""


def stream(
    index: Index, device: torch.device | str = "cpu", dtype: torch.dtype | None = None, *, lend: bool = False
) -> Iterator[tuple[str, Tensor]]:
    """Yield (BlinkDL name, tensor) of a checked index, as `Tensors` reads them, in the order of the file."""
    with Tensors(index, device, dtype, lend=lend) as tensors:
        yield from tensors.items()


class Tensors(Mapping[str, Tensor]):
    """A checkpoint's tensors by BlinkDL name, each read anew when it is asked for; iterated in the order of the file.

    Every tensor is the caller's own. With `lend`, one on the CPU is valid only until the next is asked for: a consumer
    that converts or packs it anyway spares the memory's first touch, which costs six times the reading. Low-rank pairs
    of the Hugging Face layout are transposed views, as in `formats.load.load`. `check` hears of each tensor as it is
    handed out. Raises UnreadableCheckpointError where the file ends too early. A context manager: it holds files open.
    """

    def __init__(
        self,
        index: Index,
        device: torch.device | str = "cpu",
        dtype: torch.dtype | None = None,
        *,
        lend: bool = False,
        check: FiniteCheck | None = None,
    ) -> None:
        order = sorted(index.entries.items(), key=lambda item: (str(item[1].file), item[1].offset))
        self._entries, self._dtype, self._check = dict(order), dtype, check
        self._files = ExitStack()
        source, target = _Source(self._files), torch.device(device)
        pinned = target.type == "cuda"
        self._read = _Pinned(source, target).tensor if pinned else partial(_plain, source, _Buffer(lend=lend))

    def __getitem__(self, name: str) -> Tensor:
        found = self._read(self._entries[name])
        tensor = found if self._dtype is None else found.to(self._dtype)
        if self._check:
            self._check.add(name, tensor)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()


class _Source:
    """Reads pieces of files. Each file is opened once, and announced to the kernel as read sequentially."""

    def __init__(self, files: ExitStack) -> None:
        self._files, self._open = files, dict[Path, int]()
        self._asked: tuple[int, int] = (-1, 0)

    def fill(self, piece: memoryview, file: Path, place: int) -> None:
        descriptor = self._open.get(file)
        if descriptor is None:
            descriptor = self._open[file] = self._descriptor(file)
        self._ask(descriptor, place + len(piece))
        done = 0
        while done < len(piece):
            count = os.preadv(descriptor, [piece[done:]], place + done)
            if not count:
                raise UnreadableCheckpointError(f"{file.name} was cut short while it was read")
            done += count

    def _ask(self, descriptor: int, place: int) -> None:
        """Keep between one and two windows of read-ahead requested."""
        asked = self._asked[1] if self._asked[0] == descriptor else 0
        if asked < place + AHEAD_BYTES:
            begin = max(asked, place)
            os.posix_fadvise(descriptor, begin, place + 2 * AHEAD_BYTES - begin, os.POSIX_FADV_WILLNEED)
            self._asked = descriptor, place + 2 * AHEAD_BYTES

    def _descriptor(self, file: Path) -> int:
        try:
            descriptor = self._files.enter_context(open_plain(file)).fileno()
        except OSError as error:
            raise UnreadableCheckpointError(f"cannot read {file}: {error.strerror}") from error
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        return descriptor


class _Buffer:
    """Memory to read into: fresh for each tensor, or the same for all."""

    def __init__(self, *, lend: bool) -> None:
        self._lend, self._kept = lend, torch.empty(0, dtype=torch.uint8)

    def take(self, count: int) -> Tensor:
        if not self._lend:
            return torch.empty(count, dtype=torch.uint8)
        if self._kept.numel() < count:
            self._kept = torch.empty(count, dtype=torch.uint8)
        return self._kept[:count]


def _plain(source: _Source, buffer: _Buffer, entry: Entry) -> Tensor:
    numbers = buffer.take(entry.span)
    source.fill(numbers.numpy().data, entry.file, entry.offset)
    return view(numbers.untyped_storage(), entry)


class _Pinned:
    """Two page-locked buffers used in turn. A buffer is filled again only when its last copy is done."""

    def __init__(self, source: _Source, device: torch.device) -> None:
        self._source, self._device, self._turn = source, device, 0
        self._buffers = [torch.empty(PIECE_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        self._left = [torch.cuda.Event() for _ in range(2)]  # type: ignore[no-untyped-call]

    def tensor(self, entry: Entry) -> Tensor:
        numbers = torch.empty(entry.span, dtype=torch.uint8, device=self._device)
        for start in range(0, entry.span, PIECE_BYTES):
            self._piece(numbers[start : start + PIECE_BYTES], entry, start)
        return view(numbers.untyped_storage(), entry, self._device)

    def _piece(self, numbers: Tensor, entry: Entry, start: int) -> None:
        self._turn = 1 - self._turn
        self._left[self._turn].synchronize()
        buffer = self._buffers[self._turn][: numbers.numel()]
        self._source.fill(buffer.numpy().data, entry.file, entry.offset + start)
        numbers.copy_(buffer, non_blocking=True)
        self._left[self._turn].record(torch.cuda.current_stream(self._device))
