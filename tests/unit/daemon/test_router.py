"""The table of answers."""

from typing import get_args

from rwkv_daemon.api.router import ANSWERS
from rwkvctl.protocol import messages as m


def test_every_request_has_its_answer() -> None:
    assert ANSWERS.keys() == set(get_args(m.Request))


def test_every_request_and_every_stream_has_a_route() -> None:
    assert m.ROUTES.keys() == {*get_args(m.Request), *get_args(m.Stream)}
