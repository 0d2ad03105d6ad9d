"""The samples file of one attempt: one record per line, which a reader sees whole or not at all."""

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from rwkv_daemon.workers.crash_points import crash_point
from rwkv_daemon.workers.run_directory import Record, StageRecord


class DiskFullError(Exception):
    """There is no room for samples. What is written stays; the job continues when there is room again."""


class SamplesFile:
    """Appends records. A line that a full disk has cut short stays without its end, so readers skip it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    def append(self, record: Record) -> None:
        """Append one record as a line of JSON. Raises DiskFullError if there is no room for all of it."""
        stage = isinstance(record, StageRecord)
        if stage:
            crash_point("runner-before-stage")
        line = msgspec.json.encode(record) + b"\n"
        try:
            written = os.write(self.descriptor, line)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise DiskFullError(f"no space left to write {self.path}") from error
            raise
        if written < len(line):
            raise DiskFullError(f"no space left to write {self.path}")
        crash_point("runner-after-stage" if stage else "runner-after-sample")
