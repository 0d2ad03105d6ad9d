"""The tensors of a .safetensors file by name, as entries. The header is untrusted JSON and is read strictly: bounded,
without duplicate keys, and every byte of the data must belong to exactly one tensor.
"""

import os
import struct
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from rwkv_weights.errors import UnreadableCheckpointError
from rwkv_weights.formats import json_table
from rwkv_weights.formats.entry import ITEM_BYTES, Entry, dense
from rwkv_weights.formats.json_table import JsonError
from rwkv_weights.local.checkpoint_files import open_plain

LONGEST_HEADER: Final = 16 * 1024 * 1024
"""Bytes; the largest public checkpoint needs 0.4 MiB."""

MOST_AXES: Final = 8

DTYPES: Final = {
    "BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip


def read(path: Path) -> dict[str, Entry]:
    """Return the tensors of a .safetensors file by name. Raises UnreadableCheckpointError if it cannot be read or its
    header does not describe its bytes."""
    try:
        header, start, size = _header(path)
        entries = {key: _entry(path, key, value, start) for key, value in header.items() if key != "__metadata__"}
        _covered(entries, start, size)
    except OSError as error:
        raise UnreadableCheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except JsonError as error:
        raise UnreadableCheckpointError(f"{path.name} is no whole safetensors file: {error}") from error
    return entries


def _header(path: Path) -> tuple[dict[str, Any], int, int]:
    """Return the header, the offset at which the data begins, and the size of the file."""
    with BufferedReader(open_plain(path)) as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(8)
        if len(prefix) < 8:
            raise JsonError("it is truncated")
        (length,) = struct.unpack("<Q", prefix)
        if length > LONGEST_HEADER:
            raise JsonError(f"its header claims {length:,} bytes")
        text = file.read(length)
    if len(text) < length:
        raise JsonError("it is truncated within its header")
    return json_table.parse(text, "its header"), 8 + length, size


def _entry(path: Path, key: str, value: Any, start: int) -> Entry:
    try:
        dtype, shape, (begin, end) = DTYPES[value["dtype"]], value["shape"], value["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise JsonError(f"the description of {key!r} is not valid") from error
    small = isinstance(shape, list) and len(shape) <= MOST_AXES
    if not small or not all(type(n) is int and 0 <= n < 1 << 40 for n in (*shape, begin, end)):
        raise JsonError(f"{key!r} has an impossible shape or place")
    found = Entry(path, dtype, tuple(shape), dense(tuple(shape)), start + begin)
    if end - begin != found.numbers * ITEM_BYTES[dtype]:
        raise JsonError(f"{key!r} has a shape that does not fill its place")
    return found


def _covered(entries: dict[str, Entry], start: int, size: int) -> None:
    """Check that the tensors cover the data without gap, overlap or rest. Raises JsonError."""
    place = start
    for key, entry in sorted(entries.items(), key=lambda item: (item[1].offset, item[1].numbers)):
        if entry.offset != place:
            raise JsonError(f"{key!r} does not begin where the tensor before it ends")
        place += entry.numbers * ITEM_BYTES[entry.dtype]
    if place != size:
        raise JsonError("it is truncated" if place > size else f"{size - place:,} bytes belong to no tensor")
