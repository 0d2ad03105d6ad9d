"""Whether a checkpoint's files are complete, as far as their formats say. Files that are still being copied are not."""

import json
import struct
from pathlib import Path
from typing import BinaryIO, Final

from rwkv_weights.errors import UnreadableCheckpointError
from rwkv_weights.formats import shards
from rwkv_weights.local.checkpoint_files import open_plain
from rwkv_weights.local.inventory import FoundCheckpoint

ZIP: Final = b"PK\x03\x04"
ZIP_END: Final = struct.Struct("<4s16xH")
"""The last record of a zip: its signature, and the length of the comment after it."""
LONGEST_COMMENT: Final = 65535
LONGEST_HEADER: Final = 100_000_000


def is_whole(found: FoundCheckpoint) -> bool:
    """Whether nothing is missing. A file that is damaged in another way counts as whole: loading it says what is
    wrong."""
    try:
        files = shards.find(found.path).files if found.path.is_dir() else found.files
        return all(map(file_is_whole, files))
    except (OSError, UnreadableCheckpointError):
        return False


def file_is_whole(path: Path) -> bool:
    """Whether nothing of one file is missing. Raises OSError."""
    with open_plain(path) as file:
        size = path.stat().st_size
        if path.suffix == ".safetensors":
            return _tensors_end_in(file, size)
        head = (file.read(4) or b"").rstrip(b"\0")  # the file may have been allocated and not be written yet
        return _zip_ends(file, size) if head == ZIP else not ZIP.startswith(head)


def _zip_ends(file: BinaryIO, size: int) -> bool:
    file.seek(max(0, size - ZIP_END.size - LONGEST_COMMENT))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < ZIP_END.size:
        return False
    return bool(at + ZIP_END.size + ZIP_END.unpack_from(tail, at)[1] == len(tail))


def _tensors_end_in(file: BinaryIO, size: int) -> bool:
    head = file.read(8)
    if len(head) < 8 or not head.strip(b"\0"):
        return False
    length = int.from_bytes(head, "little")
    if length > LONGEST_HEADER:
        return True  # no safetensors
    if size < 8 + length:
        return False
    try:
        entries = json.loads(file.read(length).decode())
        ends = [entry["data_offsets"][1] for name, entry in entries.items() if name != "__metadata__"]
        return size >= 8 + length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return True
