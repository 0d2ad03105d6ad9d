"""Preparation as a process that is interrupted or killed, and two of them at once."""

import json
import signal
import subprocess
import sys
import time

import pytest

from rwkv_data import registry, sets

GSM8K = registry.load("gsm8k")


@pytest.fixture
def home(tmp_path):
    """A home with one prepared row, and a file of very many rows beside it."""
    old = tmp_path / "old.jsonl"
    old.write_text(json.dumps({"question": "Old?", "answer": "#### 1"}))
    assert command(tmp_path, old).wait() == 0
    line = json.dumps({"question": "New? " + "x" * 200, "answer": "#### 2"}) + "\n"
    with (tmp_path / "new.jsonl").open("w") as file:
        for _ in range(40):
            file.write(line * 10_000)
    return tmp_path


def command(home, source):
    return subprocess.Popen(
        [sys.executable, "-m", "rwkv_data", "prepare", "gsm8k", "--from", str(source), "--home", str(home)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def running(home):
    """A preparation that has begun to write."""
    process = command(home, home / "new.jsonl")
    deadline = time.monotonic() + 60
    while not (home / "data" / "gsm8k" / ".test.jsonl.part").exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def questions(home):
    return [row["question"] for row in sets.load_rows(home / "data", GSM8K)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_what_is_interrupted_leaves_the_old_set(home, number: signal.Signals, code: int) -> None:
    process = running(home)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert error == ("rwkv_data: interrupted\n" if code == 130 else "")
    assert questions(home) == ["Old?"]
    assert command(home, home / "old.jsonl").wait() == 0
    assert sorted(path.name for path in (home / "data" / "gsm8k").iterdir()) == ["manifest.json", "test.jsonl"]


def test_a_second_one_is_refused_while_the_first_runs(home) -> None:
    first = running(home)
    second = command(home, home / "old.jsonl")
    _, error = second.communicate(timeout=60)
    if second.returncode == 0:
        assert first.poll() == 0
        pytest.skip("needs a machine on which the first one is still running")
    assert error == "rwkv_data: gsm8k is being prepared by another process; wait for that one\n"
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    assert questions(home) == ["Old?"]
