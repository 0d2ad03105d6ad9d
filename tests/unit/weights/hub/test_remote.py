"""What a hub may ask of us is bounded."""

from types import SimpleNamespace

import pytest

from rwkv_weights.hub.remote import LONGEST_WAIT_S, bounded


def response(asked: dict[str, str], answered: dict[str, str]) -> SimpleNamespace:
    return SimpleNamespace(request=SimpleNamespace(headers=asked), headers=answered)


@pytest.mark.parametrize(("asks", "waits"), [("86400", f"{LONGEST_WAIT_S:.0f}"), ("9" * 30, "300"), ("7", "7")])
def test_no_hub_makes_a_download_wait_longer_than_the_longest_wait(asks: str, waits: str) -> None:
    answer = response({}, {"Retry-After": asks, "ratelimit": '"api";r=0;t=86400'})
    bounded(answer)
    assert answer.headers == {"Retry-After": waits}


def test_file_bytes_that_are_compressed_unasked_are_refused() -> None:
    with pytest.raises(ValueError, match="compressed"):
        bounded(response({"Accept-Encoding": "identity"}, {"Content-Encoding": "br"}))
    bounded(response({"Accept-Encoding": "identity"}, {"Content-Encoding": "identity"}))
    bounded(response({"Accept-Encoding": "gzip"}, {"Content-Encoding": "gzip"}))
