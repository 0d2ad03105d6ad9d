"""Preparation as a process that is interrupted or killed, and two of them at once."""

import json
import signal
import subprocess
import sys

import pytest
from waiting import LIMIT_S, wait_for

from rwkv_data.definition import registry
from rwkv_data.prepare import prepared_sets

GSM8K = registry.load("gsm8k")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A file of very many rows: whoever prepares it is at it for seconds."""
    line = json.dumps({"question": "New? " + "x" * 200, "answer": "#### 2"}) + "\n"
    path = tmp_path_factory.mktemp("many") / "new.jsonl"
    with path.open("w") as file:
        for _ in range(40):
            file.write(line * 10_000)
    yield path
    path.unlink()


@pytest.fixture
def home(tmp_path):
    """A home with one prepared row."""
    old = tmp_path / "old.jsonl"
    old.write_text(json.dumps({"question": "Old?", "answer": "#### 1"}))
    assert command(tmp_path, old).wait() == 0
    return tmp_path


def command(home, source):
    return subprocess.Popen(
        [sys.executable, "-m", "rwkv_data", "prepare", "gsm8k", "--from", str(source), "--home", str(home)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def running(home, many):
    """A preparation that has begun to write, and stands still."""
    process = command(home, many)

    def begun() -> bool:
        assert process.poll() is None, process.stderr.read()
        return (home / "data" / "gsm8k" / ".test.jsonl.part").exists()

    wait_for(begun, "the preparation writes")
    process.send_signal(signal.SIGSTOP)
    return process


def questions(home):
    return [row["question"] for row in prepared_sets.load_rows(home / "data", GSM8K)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_what_is_interrupted_leaves_the_old_set(home, many, number: signal.Signals, code: int) -> None:
    process = running(home, many)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, error = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code
    assert error == ("rwkv_data: interrupted\n" if code == 130 else "")
    assert questions(home) == ["Old?"]
    assert command(home, home / "old.jsonl").wait() == 0
    names = sorted(path.name for path in (home / "data" / "gsm8k").iterdir())
    assert names == ["fields.jsonl", "manifest.json", "test.jsonl"]


def test_a_second_one_is_refused_while_the_first_runs(home, many) -> None:
    first = running(home, many)
    second = command(home, home / "old.jsonl")
    _, error = second.communicate(timeout=LIMIT_S)
    assert error == "rwkv_data: gsm8k is being prepared by another process; wait for that one\n"
    first.send_signal(signal.SIGINT)
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=LIMIT_S)
    assert questions(home) == ["Old?"]
