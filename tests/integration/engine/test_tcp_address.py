"""TCP addresses and their keys; and the memory that an engine reports."""

import socket

import pytest

from rwkv_engine.serving.gauges import resident_bytes
from rwkv_engine.serving.tcp_address import ListenError, address_message, listen_tcp


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_beyond_this_machine_only_with_a_key(host: str) -> None:
    with pytest.raises(ListenError, match="--api-key-file"):
        listen_tcp(host, 0, "")


def test_loopback_needs_no_key_and_any_address_may_be_opened_with_one() -> None:
    for host, key in [("127.0.0.1", ""), ("localhost", ""), ("0.0.0.0", "secret")]:
        with listen_tcp(host, 0, key) as listener:
            assert listener.getsockname()[1] > 0


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 1), ("192.0.2.1", 1), ("127.0.0.1", 70000)])
def test_what_cannot_be_opened_is_one_sentence(host: str, port: int) -> None:
    with pytest.raises(ListenError, match=f"cannot listen on {host} port {port}"):
        listen_tcp(host, port, "secret")


def test_a_taken_port() -> None:
    with listen_tcp("127.0.0.1", 0, "") as listener, pytest.raises(ListenError, match="in use"):
        listen_tcp("127.0.0.1", listener.getsockname()[1], "")


def test_the_greeting_says_where_and_how() -> None:
    with listen_tcp("127.0.0.1", 0, "") as listener:
        port = listener.getsockname()[1]
        words = address_message(listener, "tiny", keyed=False)
        assert f"http://127.0.0.1:{port}/v1\n" in words
        assert "curl" in words
        assert "Authorization" not in words
        assert "Authorization" in address_message(listener, "tiny", keyed=True)
    with listen_tcp("0.0.0.0", 0, "secret") as listener:
        assert "http://127.0.0.1:" in address_message(listener, "tiny", keyed=True)
    if socket.has_ipv6:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
            assert "http://[::1]:" in address_message(listener, "tiny", keyed=False)


def test_an_engine_knows_how_much_memory_it_has() -> None:
    assert resident_bytes() > 1 << 20
