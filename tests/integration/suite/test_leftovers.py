"""What a test leaves behind is found, and only that."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import leftovers
import pytest
from waiting import wait_for

WAITS = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here ends by itself."""
    monkeypatch.setattr(leftovers, "GRACE_S", 0.0)


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs until it is ended, and names the test's folder."""
    yield from waiting_process(str(tmp_path))


def waiting_process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-I", "-S", "-c", WAITS, *words]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def without(process: subprocess.Popen[bytes]) -> leftovers.Before:
    """What there would be had the process not been started."""
    now = leftovers.look()
    return leftovers.Before(now.pids - {process.pid}, now.sockets, now.files)


def test_a_process_is_found_and_ended(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (sentence,) = leftovers.left(without(child), tmp_path, tmp_path.parent)
    assert f"the process {child.pid}" in sentence
    assert child.wait() == -9


def test_a_process_of_the_modules_folder_is_left_alone(tmp_path: Path) -> None:
    for process in waiting_process(str(tmp_path.parent / "another")):
        assert leftovers.left(without(process), tmp_path, tmp_path.parent) == []
        assert process.poll() is None


def test_a_process_without_a_parent_is_found_by_the_folder_it_names(tmp_path: Path) -> None:
    before = leftovers.look()
    orphan = "import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', 'input()', *sys.argv[1:]], stdin=0)"
    stays_open, inlet = os.pipe()
    subprocess.run([sys.executable, "-c", orphan, str(tmp_path)], stdin=stays_open, check=True)
    # a process that is just being executed has no words yet
    (sentence,) = wait_for(lambda: leftovers.left(before, tmp_path, tmp_path.parent), "the orphan is found")
    assert "input()" in sentence
    os.close(stays_open)
    os.close(inlet)
    wait_for(lambda: not leftovers.left(before, tmp_path, tmp_path.parent), "what was found is gone")


def test_a_listening_socket_and_a_file_are_found(tmp_path: Path) -> None:
    before = leftovers.look()
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.NamedTemporaryFile() as file:
        port = server.getsockname()[1]
        assert leftovers.left(before, tmp_path, tmp_path.parent) == [
            f"the listening socket ('127.0.0.1', {port})", f"the file {file.name}",
        ]  # fmt: skip
    assert leftovers.left(before, tmp_path, tmp_path.parent) == []
