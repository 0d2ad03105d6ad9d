"""The API key of a TCP address."""

from pathlib import Path

import pytest

from rwkv_engine.serving.tcp_address import ListenError, key_in


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.touch(mode)
    path.chmod(mode)
    path.write_text(text)
    return path


def test_a_key_is_one_word(tmp_path: Path) -> None:
    assert key_in(write(tmp_path / "key", "secret\n")) == "secret"


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("secret", 0o640, "chmod 600"),
        ("secret", 0o604, "chmod 600"),
        ("", 0o600, "one word"),
        ("two words", 0o600, "one word"),
        ("schlüssel", 0o600, "one word"),
        ("a\nb", 0o600, "one word"),
    ],
)
def test_a_key_that_is_none_or_open_to_others_is_refused(tmp_path: Path, text: str, mode: int, words: str) -> None:
    with pytest.raises(ListenError, match=words):
        key_in(write(tmp_path / "key", text, mode))


def test_a_key_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="cannot be read"):
        key_in(tmp_path / "nothing")
