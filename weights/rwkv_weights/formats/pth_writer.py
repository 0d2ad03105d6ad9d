"""Write a .pth as torch.save does, one tensor after the other: a checkpoint need not fit in memory.

The archive holds what torch writes: `data.pkl` (the table, in which a tensor names its storage), `byteorder`,
`version`, and a stored record of bytes for each tensor, aligned so that it can be mapped. Like torch's, it is written
without seeking: sizes and checksums follow their records.
"""

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from rwkv_weights.formats.entry import ITEM_BYTES, Shape, dense

ROOT: Final = "archive"
ALIGNMENT: Final = 64
PIECE_BYTES: Final = 16 * 1024 * 1024
_LOCAL_HEADER_BYTES: Final = 30
_ZIP64_BYTES: Final = 20
_PADDING: Final = 0x4246
"""The id of the extra field by which torch aligns its records ("FB")."""
_LARGE: Final = 1 << 30
"""From this size on a record has zip64's field; zipfile adds it by itself only near 2 GiB."""


@dataclass(frozen=True, slots=True)
class TensorForm:
    """The type (by torch's name) and the shape of a tensor that is still to be written."""

    dtype: str
    shape: Shape

    @property
    def bytes(self) -> int:
        return ITEM_BYTES[self.dtype] * self.numbers

    @property
    def numbers(self) -> int:
        return int(torch.Size(self.shape).numel())


class ByteSink(Protocol):
    """What a file is written to."""

    def write(self, piece: bytes, /) -> int: ...

    def flush(self) -> None: ...


def write(file: ByteSink, forms: Mapping[str, TensorForm], tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write a table of tensors, which come in the order of their forms. Raises OSError, and ValueError for a tensor
    that is not the one that was announced."""
    with zipfile.ZipFile(_Forward(file), "w", zipfile.ZIP_STORED) as archive:
        _record(archive, "data.pkl", _table(forms))
        _record(archive, "byteorder", b"little")
        for number, ((name, form), (given, tensor)) in enumerate(zip(forms.items(), tensors, strict=True)):
            if (given, tuple(tensor.shape), str(tensor.dtype)) != (name, form.shape, f"torch.{form.dtype}"):
                raise ValueError(f"{given} is not {name} as it was announced")
            record = _aligned(archive, f"data/{number}", form.bytes)
            flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
            with archive.open(record, "w", force_zip64=form.bytes >= _LARGE) as out:
                for start in range(0, form.bytes, PIECE_BYTES):
                    out.write(flat[start : start + PIECE_BYTES].numpy().data)
        _record(archive, "version", b"3\n")


def size_of(forms: Mapping[str, TensorForm]) -> int:
    """Return about how many bytes a file of these tensors takes."""
    return sum(form.bytes for form in forms.values()) + 512 * (len(forms) + 8)


def _record(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    with archive.open(_aligned(archive, name, len(content)), "w") as out:
        out.write(content)


def _aligned(archive: zipfile.ZipFile, name: str, size: int) -> zipfile.ZipInfo:
    """Return a record whose bytes begin at a multiple of ALIGNMENT, if it is written next."""
    record = zipfile.ZipInfo(f"{ROOT}/{name}")  # of 1980, so that equal tensors are equal files
    record.file_size = size
    assert archive.fp is not None
    fixed = _LOCAL_HEADER_BYTES + len(record.filename) + (_ZIP64_BYTES if size >= _LARGE else 0) + 4
    padding = -(archive.fp.tell() + fixed) % ALIGNMENT
    record.extra = struct.pack("<HH", _PADDING, padding) + b"Z" * padding
    return record


class _Forward:
    """A sink without a position: zipfile does not seek in it, nor close it."""

    def __init__(self, file: ByteSink) -> None:
        self.write, self.flush = file.write, file.flush

    def close(self) -> None:
        raise NotImplementedError


class _Storage:
    """The numbers of one tensor, which torch's pickles name and do not hold."""

    def __init__(self, key: str, form: TensorForm) -> None:
        self.key, self.form = key, form


class _Tensor:
    def __init__(self, storage: _Storage) -> None:
        self.storage = storage

    def __reduce__(self) -> tuple[Any, ...]:
        shape = self.storage.form.shape
        hooks: OrderedDict[str, Any] = OrderedDict()
        return torch._utils._rebuild_tensor_v2, (self.storage, 0, shape, dense(shape), False, hooks)


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        if not isinstance(obj, _Storage):
            return None
        return "storage", STORAGES[obj.form.dtype], obj.key, "cpu", obj.form.numbers


STORAGES: Final = {
    "bfloat16": torch.BFloat16Storage, "float16": torch.HalfStorage, "float32": torch.FloatStorage,
}  # fmt: skip


def _table(forms: Mapping[str, TensorForm]) -> bytes:
    out = io.BytesIO()
    table = {name: _Tensor(_Storage(str(number), form)) for number, (name, form) in enumerate(forms.items())}
    _Pickler(out, protocol=2).dump(table)
    return out.getvalue()
