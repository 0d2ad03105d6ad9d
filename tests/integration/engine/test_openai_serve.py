"""`rwkvctl serve`: the verb becomes the engine, prints its address, and is not reachable by everybody."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from waiting import LIMIT_S, wait_for

from rwkv_engine.__main__ import main


def start(log: Path, *words: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "rwkvctl.cli", "serve", *words, "--device", "cpu"]
    with log.open("w") as errors:
        return subprocess.Popen(argv, stderr=errors, env={**os.environ, "OMP_NUM_THREADS": "1"})


def greeted(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the two lines that the engine prints when it is ready."""

    def words() -> str:
        said = log.read_text()
        assert process.poll() is None, said
        return said if said.count("\n") > 1 else ""

    return wait_for(words, "it says that it serves", log.read_text)


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    process = start(tmp_path / "log", "builtin", "--port", "0", "--slots", "4")
    try:
        words = greeted(tmp_path / "log", process)
        first, trial, _ = words.split("\n")
        base = re.search(r"http://127\.0\.0\.1:\d+/v1", first)
        assert base is not None
        assert first == f"builtin is served at {base[0]}"
        done = subprocess.run(["sh", "-c", trial], capture_output=True, text=True, check=True, timeout=LIMIT_S)
        assert '"text_completion"' in done.stdout, "the line that it gives to try works"
        assert httpx.get(f"{base[0]}/models").json()["data"][0]["id"] == "builtin"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()


def test_what_cannot_be_served_is_one_sentence(tmp_path: Path) -> None:
    process = start(tmp_path / "log", "no-such-model", "--port", "0")
    assert process.wait(LIMIT_S) == 3
    errors = (tmp_path / "log").read_text()
    assert "no-such-model" in errors
    assert errors.count("\n") == 1, errors


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--port", "0", "--host", "0.0.0.0"), "--api-key-file"),
        (("--port", "0", "--api-key-file", "{tmp}/open"), "chmod 600"),
        (("--port", "0", "--api-key-file", "{tmp}/nothing"), "cannot be read"),
        (("--port", "70000"), "65535"),
    ],
)
def test_a_door_that_stays_shut_is_one_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    sentence: str,
) -> None:
    """Without a process, because importing torch takes long, and without its signal handlers."""
    monkeypatch.setattr("faulthandler.register", lambda _: None)
    (tmp_path / "open").write_text("key")
    (tmp_path / "open").chmod(0o644)
    assert main(["serve", "builtin", "--device", "cpu", *(word.format(tmp=tmp_path) for word in words)]) == 1
    errors = capsys.readouterr().err
    assert sentence in errors
    assert errors.count("\n") == 1, errors
