"""The guard of the unit suite itself: what it stops, and what it lets pass."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from no_io import ROOT, IoError

ELSEWHERE = Path("/var/tmp/rwkvctl-a-unit-test-was-here")


def connect() -> None:
    with socket.socket() as one:
        one.connect(("127.0.0.1", 9))


def bind() -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("\0rwkvctl-a-unit-test-was-here")


def send() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", 9))


NETWORK: list[Callable[[], object]] = [connect, bind, send, lambda: socket.getaddrinfo("localhost", 1)]
PROCESSES: list[Callable[[], object]] = [
    lambda: subprocess.run([sys.executable, "--version"], check=True),
    lambda: os.posix_spawn(sys.executable, [sys.executable, "--version"], {}),
    lambda: os.system("true"),
    os.fork,
    lambda: os.kill(os.getpid(), 0),
]
FILES: list[Callable[[], object]] = [
    ELSEWHERE.touch,
    ELSEWHERE.mkdir,
    lambda: ELSEWHERE.write_text("x"),
    lambda: (ROOT / "a-unit-test-was-here").write_text("x"),
    lambda: ELSEWHERE.symlink_to("/"),
    lambda: Path("/etc/hostname").read_text(),
    lambda: Path("/proc/self/status").read_text(),
]


@pytest.mark.parametrize("act", NETWORK)
def test_the_network_is_out_of_bounds(act: Callable[[], object]) -> None:
    with pytest.raises(IoError, match="network"):
        act()


@pytest.mark.parametrize("act", PROCESSES)
def test_a_process_is_out_of_bounds(act: Callable[[], object]) -> None:
    with pytest.raises(IoError, match="process"):
        act()


@pytest.mark.parametrize("act", FILES)
def test_files_elsewhere_are_out_of_bounds(act: Callable[[], object]) -> None:
    with pytest.raises(IoError, match="tmp_path"):
        act()
    assert not os.path.lexists(ELSEWHERE)


def test_a_file_of_ones_own_cannot_be_moved_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(IoError, match="tmp_path"):
        (tmp_path / "a").rename(ELSEWHERE)


def test_what_lies_in_its_own_folder_and_reading_the_checkout_is_a_tests_own_affair(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "c").symlink_to("/nowhere")
    (tmp_path / "b").unlink()
    assert (ROOT / "pyproject.toml").read_text()
