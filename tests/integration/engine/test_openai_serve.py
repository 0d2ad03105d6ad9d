"""`rwkvctl serve`: the verb becomes the engine, says where it is, and does not open a door to everybody."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

TIMEOUT_S = 60.0


def start(log: Path, *words: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "rwkvctl.cli", "serve", *words, "--device", "cpu"]
    with log.open("w") as errors:
        return subprocess.Popen(argv, stderr=errors, env={**os.environ, "OMP_NUM_THREADS": "1"})


def greeted(log: Path, process: subprocess.Popen[bytes]) -> str:
    """The two lines that it says when it is ready."""
    deadline = time.monotonic() + TIMEOUT_S
    while (words := log.read_text()).count("\n") < 2:
        assert process.poll() is None, words
        assert time.monotonic() < deadline, words
        time.sleep(0.02)
    return words


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    process = start(tmp_path / "log", "builtin", "--port", "0", "--slots", "4")
    try:
        words = greeted(tmp_path / "log", process)
        first, trial, _ = words.split("\n")
        base = re.search(r"http://127\.0\.0\.1:\d+/v1", first)
        assert base is not None
        assert first == f"builtin is served at {base[0]}"
        done = subprocess.run(["sh", "-c", trial], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        assert '"text_completion"' in done.stdout, "the line that it gives to try works"
        assert httpx.get(f"{base[0]}/models").json()["data"][0]["id"] == "builtin"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("builtin", "--port", "0", "--host", "0.0.0.0"), "--api-key-file"),
        (("builtin", "--port", "0", "--api-key-file", "{tmp}/open"), "chmod 600"),
        (("builtin", "--port", "0", "--api-key-file", "{tmp}/nothing"), "cannot be read"),
        (("builtin", "--port", "70000"), "65535"),
        (("no-such-model", "--port", "0"), "no-such-model"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    (tmp_path / "open").write_text("key")
    (tmp_path / "open").chmod(0o644)
    process = start(tmp_path / "log", *(word.format(tmp=tmp_path) for word in words))
    assert process.wait(TIMEOUT_S) in {1, 3}
    errors = (tmp_path / "log").read_text()
    assert sentence in errors
    assert errors.count("\n") == 1, errors
