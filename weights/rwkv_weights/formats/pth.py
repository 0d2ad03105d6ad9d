"""The tensors of a .pth by name, as entries: torch's zip format, and the one from before torch 1.6."""

import os
import struct
import zipfile
from io import SEEK_SET, BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from rwkv_weights.errors import UnreadableCheckpointError
from rwkv_weights.formats import pickle_reader
from rwkv_weights.formats.entry import ITEM_BYTES, Entry
from rwkv_weights.formats.pickle_reader import PickledStorage, PickledTensor, PickleError
from rwkv_weights.local.checkpoint_files import open_plain

LONGEST_PICKLE: Final = 4 * 1024 * 1024
"""Bytes of names and shapes; the largest public checkpoint needs 0.3 MiB."""

LONGEST_DIRECTORY: Final = 4 * 1024 * 1024
"""Bytes of an archive's directory; the largest public checkpoint needs 0.3 MiB."""

LONGEST_WORD: Final = 16
"""Bytes of the record that holds the byte order."""

_BROKEN: Final = (
    PickleError, zipfile.BadZipFile, struct.error, KeyError, ValueError, TypeError, OverflowError, EOFError,
    RuntimeError,
)  # fmt: skip
"""What a damaged or hostile file makes the readers raise; RuntimeError is an encrypted or too deeply nested one."""

_OLD_MAGIC: Final = 0x1950A86A20F9469CFC6C
StoragePlaces = dict[str, tuple[int, int]]
"""The offset and the length in bytes of each storage."""

_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")


def read(path: Path) -> dict[str, Entry]:
    """Return the tensors of a .pth file by name. Raises UnreadableCheckpointError if it cannot be read, is damaged or
    holds more than named tensors."""
    try:
        with BufferedReader(open_plain(path)) as file:
            tensors, places = _zip(file) if zipfile.is_zipfile(file) else _old(file)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise UnreadableCheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except _BROKEN as error:
        what = error if isinstance(error, PickleError) else "it is truncated, corrupt or something else"
        raise UnreadableCheckpointError(f"{path.name} is no whole checkpoint of plain tensors: {what}") from error
    if not isinstance(tensors, dict) or not tensors or not all(map(_named, tensors.items())):
        raise UnreadableCheckpointError(f"{path.name} does not hold a flat table of named tensors")
    return {key: _entry(path, key, tensor, places, size) for key, tensor in tensors.items()}


def _named(item: tuple[object, object]) -> bool:
    return isinstance(item[0], str) and isinstance(item[1], PickledTensor)


def _entry(path: Path, key: str, tensor: PickledTensor, places: StoragePlaces, size: int) -> Entry:
    storage = tensor.storage
    start, there = places.get(storage.key, (size, 0))
    found = Entry(path, storage.dtype, tensor.shape, tensor.stride, tensor.offset * ITEM_BYTES[storage.dtype])
    if found.numbers > storage.numbers or found.offset + found.span > storage.numbers * ITEM_BYTES[storage.dtype]:
        raise UnreadableCheckpointError(f"{path.name} is corrupt: {key} reaches beyond its numbers")
    if found.offset + found.span > min(there, size - start):
        raise UnreadableCheckpointError(f"{path.name} is truncated: {key} is not all there")
    return Entry(path, found.dtype, found.shape, found.stride, start + found.offset)


class BoundedFile:
    """A file that limits each read to the size of an honest directory, because zipfile reads as much as a file
    claims."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, LONGEST_DIRECTORY without a size. Raises PickleError if more are asked for."""
        if size > LONGEST_DIRECTORY:
            raise PickleError(f"its directory claims {size:,} bytes")
        return self.file.read(size if size >= 0 else LONGEST_DIRECTORY)

    def seek(self, place: int, whence: int = SEEK_SET) -> int:
        return self.file.seek(place, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True


def _zip(file: BinaryIO) -> tuple[object, StoragePlaces]:
    """Return the pickled table, and the places of its numbers."""
    with zipfile.ZipFile(BoundedFile(file)) as archive:
        records = archive.infolist()
        if len({record.filename for record in records}) < len(records):
            raise PickleError("it holds two records of one name")
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise PickleError("it is compressed, and cannot be mapped")
        if any(record.compress_size != record.file_size for record in records):
            raise PickleError("it is encrypted, or its directory contradicts itself")
        table = next((r for r in records if r.filename.endswith("/data.pkl")), None)
        if table is None or table.file_size > LONGEST_PICKLE:
            raise PickleError("it has no table of tensors")
        root = table.filename.removesuffix("data.pkl")
        order = next((r for r in records if r.filename == f"{root}byteorder"), None)
        if order and (order.file_size > LONGEST_WORD or archive.read(order) != b"little"):
            raise PickleError("its numbers are big-endian")
        content = pickle_reader.read(BytesIO(archive.read(table)))
    prefix = f"{root}data/"
    data = {r.filename.removeprefix(prefix): r for r in records if r.filename.startswith(prefix)}
    return content, {key: (_place(file, record), record.file_size) for key, record in data.items()}


def _place(file: BinaryIO, record: zipfile.ZipInfo) -> int:
    """Return the offset of a stored record's bytes: after its local header, which holds its own length."""
    head = os.pread(file.fileno(), _LOCAL_HEADER.size, record.header_offset)
    magic, name, extra = _LOCAL_HEADER.unpack(head)
    if magic != b"PK\x03\x04":
        raise PickleError("its records are not where its directory says")
    return record.header_offset + _LOCAL_HEADER.size + int(name) + int(extra)


def _old(file: BinaryIO) -> tuple[object, StoragePlaces]:
    """Read the format before torch 1.6: five pickles in a row, then each storage as a count and its bytes."""
    file.seek(0)
    head = BytesIO(file.read(LONGEST_PICKLE))
    try:
        if pickle_reader.read(head) != _OLD_MAGIC:
            raise ValueError
        pickle_reader.read(head)
        pickle_reader.read(head)
    except PickleError as error:
        raise ValueError from error
    content, keys = pickle_reader.read(head), pickle_reader.read(head)
    if not isinstance(content, dict) or not isinstance(keys, list):
        return content, {}
    return content, _old_places(file, head.tell(), keys, content)


def _old_places(file: BinaryIO, place: int, keys: list[object], content: dict[object, object]) -> StoragePlaces:
    storages: dict[str, PickledStorage] = {
        t.storage.key: t.storage for t in content.values() if isinstance(t, PickledTensor)
    }
    places = {}
    for key in keys:
        if type(key) is not str:
            raise PickleError("its numbers have keys that are not names")
        storage = storages[key]
        (count,) = struct.unpack("<q", os.pread(file.fileno(), 8, place))
        if count != storage.numbers:
            raise PickleError("its numbers are not where its table says")
        bytes_ = storage.numbers * ITEM_BYTES[storage.dtype]
        places[storage.key] = place + 8, bytes_
        place += 8 + bytes_
    return places
