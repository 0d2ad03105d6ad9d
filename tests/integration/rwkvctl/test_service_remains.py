"""What uninstalling removes besides units, and what it leaves because somebody else uses it."""

import fcntl
import json
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest


def uninstall(root: Path, *words: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "rwkvctl.cli", "service", "uninstall", "--root", str(root), "--json", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {item["path"].removeprefix(str(root)): item["done"] for item in json.loads(done.stdout)["items"]}


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A root folder in which the service was installed, enabled and has run."""
    subprocess.run([sys.executable, "-m", "rwkvctl.cli", "service", "install", "--root", str(tmp_path)], check=True)
    units = tmp_path / "etc/systemd/system"
    for name in ("rwkvctl.service", "rwkvctl.socket"):
        wants = units / ("multi-user.target.wants" if name.endswith("service") else "sockets.target.wants")
        wants.mkdir()
        (wants / name).symlink_to(units / name)
    for name in ("run/rwkvctl", "var/cache/rwkvctl/tmp", "run/lock/rwkvctl", "etc/rwkvctl"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "var/cache/rwkvctl/tmp/left").touch()
    (tmp_path / "run/lock/rwkvctl/rwkvctl-GPU-1.lock").touch()
    return tmp_path


def test_links_folders_and_unused_locks_go_too(used: Path) -> None:
    would = uninstall(used, "--dry-run")
    assert set(would.values()) == {"would remove"}
    assert (used / "var/cache/rwkvctl/tmp/left").exists()
    done = uninstall(used)
    assert (set(done), set(done.values())) == (set(would), {"removed"})
    assert [path for path in used.rglob("*") if not path.is_dir() or "rwkvctl" in path.name] == []
    assert uninstall(used) == {}


def test_what_is_the_operators_or_in_use_is_left_and_said(used: Path) -> None:
    (used / "etc/rwkvctl/config.toml").write_text("share_gpus = 2\n")
    drop_in = used / "etc/systemd/system/rwkvctl.service.d/override.conf"
    drop_in.parent.mkdir()
    drop_in.touch()
    with (used / "run/lock/rwkvctl/rwkvctl-GPU-1.lock").open() as lock, socket.socket(socket.AF_UNIX) as listener:
        fcntl.flock(lock, fcntl.LOCK_EX)
        listener.bind(str(used / "run/rwkvctl/e1.sock"))
        listener.listen()
        done = uninstall(used)
    assert done["/etc/rwkvctl"] == "kept: your configuration"
    assert done["/etc/systemd/system/rwkvctl.service.d/override.conf"] == "kept: your file"
    assert done["/run/lock/rwkvctl"].endswith("another daemon on this machine holds it")
    assert done["/run/rwkvctl"] == "kept: another daemon or engine listens on e1.sock"
    assert drop_in.exists()
    assert stat.S_ISSOCK((used / "run/rwkvctl/e1.sock").stat().st_mode)
    again = uninstall(used)
    assert (again["/run/lock/rwkvctl"], again["/run/rwkvctl"]) == ("removed", "removed")


def test_a_link_in_the_place_of_a_folder_is_not_followed(used: Path) -> None:
    elsewhere = used / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (used / "run/rwkvctl").rmdir()
    (used / "run/rwkvctl").symlink_to(elsewhere)
    assert uninstall(used)["/run/rwkvctl"] == f"kept: a link to {elsewhere} that was made by hand"
    assert (elsewhere / "kept").exists()
