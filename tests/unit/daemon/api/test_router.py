"""The table of answers."""

from typing import get_args

from rwkv_daemon.api.router import ANSWERS
from rwkvctl.protocol.routes import ROUTES, AnyRequest, StreamRequest


def test_every_request_has_its_answer() -> None:
    assert ANSWERS.keys() == set(get_args(AnyRequest))


def test_every_request_and_every_stream_has_a_route() -> None:
    assert ROUTES.keys() == {*get_args(AnyRequest), *get_args(StreamRequest)}
