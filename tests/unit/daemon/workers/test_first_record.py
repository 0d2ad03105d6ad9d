"""A shim that ends at any moment between two looks: what is said of it is what it did."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkv_daemon.workers.worker_process import (
    LOCK_HELD,
    Launch,
    LockHeldError,
    NotStartedError,
    ShimRecord,
    first_record,
)

RECORD = ShimRecord(shim=2, shim_start=1, pid=3, pid_start=1, boot_id="b")


class Ending:
    """A process that ends with a code at its n-th look, and may write its record just before."""

    def __init__(self, code: int, at: int, last_act: Callable[[], object] = lambda: None) -> None:
        self.code, self.left, self.last_act = code, at, last_act

    def poll(self) -> int | None:
        self.left -= 1
        if not self.left:
            self.last_act()
        return self.code if self.left <= 0 else None


def launch(folder: Path) -> Launch:
    return Launch(uuid="u", argv=("true",), record=folder / "record.json", log=folder / "log.txt", environment={})


@pytest.mark.parametrize("at", range(1, 5))
@pytest.mark.parametrize(("code", "error"), [(LOCK_HELD, LockHeldError), (1, NotStartedError)])
def test_an_end_is_told_by_its_code_whenever_it_comes(
    tmp_path: Path, at: int, code: int, error: type[Exception]
) -> None:
    popen: Any = Ending(code, at)
    with pytest.raises(NotStartedError) as raised:
        first_record(launch(tmp_path), popen)
    assert raised.type is error


@pytest.mark.parametrize("at", range(1, 5))
def test_a_worker_that_ended_at_once_has_been_started(tmp_path: Path, at: int) -> None:
    popen: Any = Ending(0, at, lambda: (tmp_path / "record.json").write_bytes(msgspec.json.encode(RECORD)))
    assert first_record(launch(tmp_path), popen) == RECORD
