"""What the daemon asks this machine: its mounts, its locks, and a service manager that is not there."""

import os
from pathlib import Path

import pytest

from rwkv_daemon.host.sd_notify import Notifier
from rwkv_daemon.scheduling import leases
from rwkv_daemon.store.local_disk import check_local


def test_a_temporary_folder_lies_on_a_local_disk(tmp_path: Path) -> None:
    check_local(tmp_path / "store.sqlite")


def test_nobody_holds_a_lock_that_is_not_there(tmp_path: Path) -> None:
    assert leases.lock_holder([tmp_path / "missing", Path(os.devnull)]) is None


@pytest.mark.parametrize("where", ["", "/nowhere/notify.sock", "@nobody-listens-here-rwkvctl"])
def test_without_a_manager_every_call_does_nothing(where: str) -> None:
    notifier = Notifier.of({"NOTIFY_SOCKET": where})
    assert notifier.link is None
    for call in (notifier.reloading, notifier.stopping, notifier.alive):
        call()
    assert notifier.ready("x")
    notifier.status("y")
    assert notifier.said == "y"
