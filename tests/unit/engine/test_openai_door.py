"""Who may open a TCP address, and with which key."""

import socket
from pathlib import Path

import pytest

from rwkv_engine.door import DoorError, greeting, key_in, open_door


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
    with pytest.raises(DoorError, match=words):
        key_in(write(tmp_path / "key", text, mode))


def test_a_key_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DoorError, match="cannot be read"):
        key_in(tmp_path / "nothing")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_beyond_this_machine_only_with_a_key(host: str) -> None:
    with pytest.raises(DoorError, match="--api-key-file"):
        open_door(host, 0, "")


def test_loopback_needs_no_key_and_any_address_may_be_opened_with_one() -> None:
    for host, key in [("127.0.0.1", ""), ("localhost", ""), ("0.0.0.0", "secret")]:
        with open_door(host, 0, key) as listener:
            assert listener.getsockname()[1] > 0


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 1), ("192.0.2.1", 1), ("127.0.0.1", 70000)])
def test_what_cannot_be_opened_is_one_sentence(host: str, port: int) -> None:
    with pytest.raises(DoorError, match=f"cannot listen on {host} port {port}"):
        open_door(host, port, "secret")


def test_a_taken_port() -> None:
    with open_door("127.0.0.1", 0, "") as listener, pytest.raises(DoorError, match="in use"):
        open_door("127.0.0.1", listener.getsockname()[1], "")


def test_the_greeting_says_where_and_how() -> None:
    with open_door("127.0.0.1", 0, "") as listener:
        port = listener.getsockname()[1]
        words = greeting(listener, "tiny", keyed=False)
        assert f"http://127.0.0.1:{port}/v1\n" in words
        assert "curl" in words
        assert "Authorization" not in words
        assert "Authorization" in greeting(listener, "tiny", keyed=True)
    with open_door("0.0.0.0", 0, "secret") as listener:
        assert "http://127.0.0.1:" in greeting(listener, "tiny", keyed=True)
    if socket.has_ipv6:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
            assert "http://[::1]:" in greeting(listener, "tiny", keyed=False)
