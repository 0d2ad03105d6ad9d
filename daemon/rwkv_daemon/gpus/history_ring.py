"""Twenty-four hours of one-second samples of the GPUs in a file of fixed size.

Each second of the day has its place, so nothing is ever moved or appended. A record holds its second and a checksum,
which tell torn and day-old records from valid ones. Layout, little-endian:

    header   magic (8), slots u32, CRC-32 of the ids u32, then `slots` ids of 64 bytes; padded to 4 KiB
    record   second u32 (since 1970), CRC-32 u32, then one HistoryPoint of 10 bytes for each slot
"""

import math
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, get_args

from rwkv_daemon.rules.gpu_facts import Condition, Gpu, Use

SECONDS: Final = 86400
MAGIC: Final = b"RWKVGPU1"
HEAD: Final = struct.Struct("<8sII")
ID_BYTES: Final = 64
PAGE: Final = 4096
RECORD: Final = struct.Struct("<II")
POINT: Final = struct.Struct("<BBBBIH")
LEAST_SLOTS: Final = 8
SAMPLES_A_STEP: Final = 10
"""Records that are read for one step of a longer window, spread over it."""
USES: Final[tuple[Use, ...]] = get_args(Use)
CONDITIONS: Final[tuple[Condition, ...]] = get_args(Condition)
NO_BYTE, NO_SIZE, NO_POWER = 0xFF, 0xFFFFFFFF, 0xFFFF


class HistoryPoint(NamedTuple):
    """One GPU in one second; None for what is not known."""

    use: Use
    condition: Condition
    utilisation: float | None = None
    temperature_c: float | None = None
    memory_used_bytes: int | None = None
    power_w: float | None = None

    @staticmethod
    def of(gpu: Gpu) -> "HistoryPoint":
        """Return the point that records a GPU's current use, condition and readings."""
        r = gpu.reading
        return HistoryPoint(gpu.use, gpu.condition, r.utilisation, r.temperature_c, r.memory_used_bytes, r.power_w)

    def pack(self) -> bytes:
        """Return ten bytes; 0 in place of the use means that there was no such GPU."""
        return POINT.pack(
            USES.index(self.use) + 1,
            CONDITIONS.index(self.condition),
            bounded(self.utilisation, 100, NO_BYTE),
            bounded(self.temperature_c, 1, NO_BYTE),
            bounded(self.memory_used_bytes, 2**-20, NO_SIZE),
            bounded(self.power_w, 1, NO_POWER),
        )

    @staticmethod
    def unpack(data: bytes) -> "HistoryPoint | None":
        """Return the point, or None if there was no such GPU then."""
        use, condition, utilisation, temperature, memory, power = POINT.unpack(data)
        if not 0 < use <= len(USES) or condition >= len(CONDITIONS):
            return None
        return HistoryPoint(
            USES[use - 1],
            CONDITIONS[condition],
            None if utilisation == NO_BYTE else utilisation / 100,
            None if temperature == NO_BYTE else float(temperature),
            None if memory == NO_SIZE else memory * 2**20,
            None if power == NO_POWER else float(power),
        )


def bounded(value: float | None, scale: float, nothing: int) -> int:
    """Return a number in as many bits as `nothing` has; `nothing` itself stands for None."""
    return nothing if value is None else max(0, min(round(value * scale), nothing - 1))


@dataclass(slots=True)
class HistoryRing:
    """The open file. The lock is held for every read and write, as both happen in threads."""

    file: int
    slots: int
    ids: list[str]
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def head_bytes(self) -> int:
        return math.ceil((HEAD.size + self.slots * ID_BYTES) / PAGE) * PAGE

    @property
    def record_bytes(self) -> int:
        return RECORD.size + self.slots * POINT.size

    def close(self) -> None:
        os.close(self.file)
        self.file = -1

    def write(self, second: int, points: Mapping[str, HistoryPoint]) -> None:
        """Write one second into its place. Raises OSError (disk full); the record that was there may then be torn."""
        for gpu in points:
            if gpu not in self.ids and len(self.ids) < self.slots:
                self.ids.append(gpu)
                self.write_head()
        empty = b"\0" * POINT.size
        packed = [points[gpu].pack() if gpu in points else empty for gpu in self.ids]
        body = b"".join(packed).ljust(self.slots * POINT.size, b"\0")
        os.pwrite(self.file, RECORD.pack(second, zlib.crc32(body, second)) + body, self.place(second))

    def place(self, second: int) -> int:
        """Return the byte at which a second's record begins."""
        return self.head_bytes + (second % SECONDS) * self.record_bytes

    def write_head(self) -> None:
        """Write the header: the number of slots, and the ids of the GPUs in the order of their slots."""
        table = b"".join(gpu.encode()[:ID_BYTES].ljust(ID_BYTES, b"\0") for gpu in self.ids)
        table = table.ljust(self.slots * ID_BYTES, b"\0")
        os.pwrite(self.file, HEAD.pack(MAGIC, self.slots, zlib.crc32(table)) + table, 0)

    def at(self, second: int) -> dict[str, HistoryPoint] | None:
        """Return the GPUs in one second; None if it was not recorded, was overwritten, or is torn."""
        data = os.pread(self.file, self.record_bytes, self.place(second))
        if len(data) < self.record_bytes:
            return None
        stamp, checksum = RECORD.unpack_from(data)
        body = data[RECORD.size :]
        if stamp != second or checksum != zlib.crc32(body, second):
            return None
        pieces = (body[n * POINT.size : (n + 1) * POINT.size] for n in range(len(self.ids)))
        points = {gpu: HistoryPoint.unpack(piece) for gpu, piece in zip(self.ids, pieces, strict=True)}
        return {gpu: point for gpu, point in points.items() if point is not None}

    def steps(self, since: int, until: int, step_s: int) -> Iterator[list[dict[str, HistoryPoint]]]:
        """For each step from `since` to before `until`, yield what was recorded in it; of a long step only a few
        seconds are read."""
        stride = max(1, step_s // SAMPLES_A_STEP)
        for start in range(since, until, step_s):
            found = (self.at(second) for second in range(start, min(start + step_s, until), stride))
            yield [one for one in found if one is not None]


def opened(path: Path, gpus: int) -> HistoryRing:
    """Open the ring at a path, with room for so many GPUs. A ring with too little room, or a damaged file, is replaced
    by an empty one. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        found = read_head(file)
        if found is not None and found.slots >= gpus:
            return found
        os.ftruncate(file, 0)
        ring = HistoryRing(file, max(LEAST_SLOTS, 1 << (gpus - 1).bit_length() if gpus else 0), [])
        ring.write_head()
        os.ftruncate(file, ring.head_bytes + SECONDS * ring.record_bytes)
    except BaseException:
        os.close(file)
        raise
    return ring


def read_head(file: int) -> HistoryRing | None:
    """Return the ring in an open file; None if the file is no ring or its header is torn."""
    head = os.pread(file, HEAD.size, 0)
    if len(head) < HEAD.size:
        return None
    magic, slots, checksum = HEAD.unpack(head)
    table = os.pread(file, slots * ID_BYTES, HEAD.size) if magic == MAGIC and slots <= PAGE else b""
    if not table or zlib.crc32(table) != checksum:
        return None
    names = [table[n * ID_BYTES : (n + 1) * ID_BYTES].rstrip(b"\0").decode(errors="replace") for n in range(slots)]
    return HistoryRing(file, slots, [name for name in names if name])
