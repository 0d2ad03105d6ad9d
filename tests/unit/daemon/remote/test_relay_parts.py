"""Who may use a model's socket, and how what cannot be answered is said."""

import asyncio
import os
from typing import Any

import pytest

from rwkv_daemon.remote.relay import BadItemsError, lines_of, only_ours
from rwkvctl.http.peer_credentials import Peer
from rwkvctl.http.server import Request


@pytest.mark.parametrize(
    ("peer", "admitted"),
    [(Peer(1, os.geteuid(), 0), True), (Peer(1, os.geteuid() + 1, 0), False), (None, False)],
)
def test_only_the_daemons_own_user_is_admitted(peer: Any, *, admitted: bool) -> None:
    response = only_ours(Request("POST", "/v1/generate", {}, {}, b"", peer, asyncio.Event()))
    assert (response is None) is admitted
    assert response is None or response.status == 403


def test_lines_of_a_body() -> None:
    assert lines_of(b"a\n\nb \n") == [b"a", b"b "]
    with pytest.raises(BadItemsError):
        lines_of(b" \n")
