"""The lock of a home: a second daemon is refused at once, and one that starts after a killed one waits for what that
was just starting, which still has the lock."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rwkv_daemon.host import home_lock
from rwkv_daemon.host.home_lock import AlreadyRunningError, take
from rwkvctl.settings import config
from rwkvctl.settings.config import Config

GONE = str(2**22 + 1)
"""No process has this pid: it is above what Linux gives."""


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    return config.load({"home": str(tmp_path)})


@pytest.fixture
def held_by(settings: Config) -> Callable[[str], int]:
    """Has another descriptor hold the lock, which names this pid; returns that descriptor."""

    def hold(pid: str) -> int:
        settings.daemon_lock.write_text(f"{pid}\n", encoding="ascii")
        descriptor = os.open(settings.daemon_lock, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    return hold


def test_the_lock_of_a_running_daemon_is_refused_at_once(settings: Config, held_by: Callable[[str], int]) -> None:
    holder, mine = held_by(str(os.getpid())), home_lock.open_lock(settings)
    with pytest.raises(AlreadyRunningError, match=rf"a daemon \(pid {os.getpid()}\) already runs on"):
        take(mine, settings)
    os.close(holder)
    take(mine, settings)
    os.close(mine)


def test_what_a_killed_daemon_was_starting_is_waited_for(
    settings: Config, held_by: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, mine = held_by(GONE), home_lock.open_lock(settings)
    monkeypatch.setattr(home_lock.time, "sleep", lambda _s: os.close(holder))  # it executes its program meanwhile
    take(mine, settings)
    os.close(mine)


def test_the_waiting_ends(settings: Config, held_by: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> None:
    holder, mine = held_by(GONE), home_lock.open_lock(settings)
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr(home_lock.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(home_lock.time, "sleep", lambda _s: None)
    with pytest.raises(AlreadyRunningError, match=rf"pid {GONE}"):
        take(mine, settings)
    os.close(holder)
    os.close(mine)
