"""What is nearly right, sent to everything that reads what strangers send; and that its rules notice a mistake."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"
pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl: not installed"),
]


def fuzz(seed: int, rounds: int) -> None:
    done = subprocess.run(
        [sys.executable, str(FUZZ), "--seed", str(seed), "--rounds", str(rounds)],
        capture_output=True, text=True, timeout=3500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    assert "every rule holds" in done.stdout


def test_nothing_fails_of_a_few_thousand_inputs() -> None:
    fuzz(11, 1000)


@pytest.mark.slow("fuzz")
def test_nothing_fails_of_a_hundred_thousand_inputs() -> None:
    fuzz(7, 100_000)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the fuzzer."""
    monkeypatch.syspath_prepend(str(FUZZ))
    yield importlib.import_module
    for name in ("doors", "replies", "checkpoints", "mutate", "pages"):
        sys.modules.pop(name, None)


def test_an_answer_that_says_the_daemon_failed_is_noticed(parts: Any) -> None:
    said = b"HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\nHTTP/1.1 500 Internal\r\n\r\n"
    assert parts("doors").failures(said) == [b"HTTP/1.1 500 Internal"]


def test_what_a_reply_makes_its_reader_raise_is_noticed(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = parts("replies")

    def careless(_: bytes) -> None:
        raise KeyError("x")

    monkeypatch.setattr(replies, "decode", careless)
    monkeypatch.setattr(replies, "check_outcome", lambda *_: careless(b""))
    found = list(replies.fuzz(replies.random.Random(1), 9))
    assert sum("KeyError" in sentence for sentence in found) >= 6


HARMFUL = """
import random, sys
from pathlib import Path
import checkpoints
from rwkv_weights.errors import UnreadableCheckpointError
from rwkv_weights.formats import index, load
what = sys.argv[2]
real = load.load
def careless(path):
    if what == "opens": open("/etc/hostname").close()
    if what == "runs": eval("1 + 1")
    if what == "raises": raise MemoryError
    return real(path)
draws = checkpoints.fuzz(Path(sys.argv[1]), random.Random(3), 60)
first = True
checkpoints.touch = lambda whole: None
places = checkpoints.bases
def prepared(folder):
    found = places(folder)
    checkpoints.look = lambda whole, path: (careless(whole), ())[1]
    return found
checkpoints.bases = prepared
print(*draws, sep="\\n")
"""


@pytest.mark.parametrize(
    ("what", "says"), [("opens", "open /etc/hostname"), ("runs", "exec"), ("raises", "MemoryError")]
)
def test_what_a_checkpoint_has_its_reader_do_is_noticed(tmp_path: Path, what: str, says: str) -> None:
    """In a process of its own: an audit hook stays for ever."""
    folders = [str(FUZZ), str(FUZZ.parent / "support")]
    code = f"import sys; sys.path[:0] = {folders!r}\n{HARMFUL}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), what], capture_output=True, text=True, timeout=900, check=True
    )
    assert says in done.stdout, done.stdout


def test_an_input_is_asked_again_while_the_disk_hangs(parts: Any) -> None:
    said = [b'HTTP/1.1 503 \r\n\r\n{"code":"store-trouble"}', b"HTTP/1.1 500 \r\n\r\n"]
    doors = parts("doors")
    assert doors.failures(doors.about_input(lambda: said.pop(0))) == [b"HTTP/1.1 500 "]
