"""No number, time or name in a request makes the daemon fail: each has a range, and what is beyond it is refused."""

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from every_field import Extreme, extremes, numeric
from waiting import LIMIT_S, LOOK_S

from rwkv_daemon.api.field_errors import sentence
from rwkvctl.protocol.ranges import WHOLE
from rwkvctl.protocol.requests import JobsRequest
from rwkvctl.protocol.routes import ROUTES


class UnixConnection(http.client.HTTPConnection):
    """One that stays open for many requests."""

    def __init__(self, path: str) -> None:
        super().__init__("daemon", timeout=LIMIT_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LIMIT_S)
        self.sock.connect(self.path)


@pytest.fixture(scope="module")
def node(module_node: Callable[..., Any]) -> Any:
    """A daemon with a job that is done."""
    found = module_node().start()
    (job,) = found.dispatch(only_datasets=["demo_choice"], limit=2)
    found.wait_for_state(job, "done")
    return found


@pytest.fixture
def ask(node: Any) -> Iterator[Callable[[Extreme], tuple[int, str]]]:
    """Status and body of one request."""
    link = UnixConnection(str(node.socket))

    def asked(one: Extreme) -> tuple[int, str]:
        until = time.monotonic() + LIMIT_S
        while True:
            link.request(one.method, one.target, one.body or None)
            answer = link.getresponse()
            status, body = answer.status, answer.read().decode()
            if status != 503 or not json.loads(body).get("retry") or time.monotonic() > until:
                return status, body
            time.sleep(LOOK_S)  # under load the store may not answer for a moment, and the daemon says so

    yield asked
    link.close()


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow("fuzz"))], ids=["some", "all"])
def test_no_extreme_value_of_any_field_makes_the_daemon_fail(
    node: Any, ask: Callable[[Extreme], tuple[int, str]], every: int
) -> None:
    failed = []
    count = 0
    for one in islice(extremes(), 0, None, every):
        count += every
        status, body = ask(one)
        if status >= 500:
            failed.append((one, body))
    assert not failed, "\n".join(f"{one}: {body}" for one, body in failed)
    assert count > 1500
    assert "Traceback" not in node.log()
    assert node.api.get("/v1/status")


def test_what_is_beyond_its_range_is_refused_by_the_name_of_its_field(
    ask: Callable[[Extreme], tuple[int, str]],
) -> None:
    seen = 0
    for one in extremes():
        beyond = one.kind == "int" and isinstance(one.value, int) and abs(one.value) >= 2**63
        beyond |= one.kind == "float" and one.value in ("nan", "inf", 1e308)
        beyond |= one.kind == "moment" and one.value in (
            "null",
            "0001-01-01T00:00:00+23:59",
            "2026-13-45",
            "1969-12-31",
        )
        if beyond:
            seen += 1
            status, body = ask(one)
            assert (status, json.loads(body)["code"]) == (400, "bad-request"), (one, body)
            name = one.field.rpartition(".")[2].removesuffix("[]")
            assert f" {name}" in body or f".{name}" in body, (one, body)
    assert seen > 200


def test_every_number_of_a_request_has_a_range() -> None:
    for kind in ROUTES:
        for path, what, metadata in numeric(kind):
            if what in ("int", "float"):
                assert any(one.ge is not None and one.le is not None for one in metadata), f"{kind.__name__}.{path}"


def test_a_range_is_a_sentence() -> None:
    import msgspec

    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"before": WHOLE + 1}, JobsRequest)
    assert sentence(caught.value) == f"before: expected `int` <= {WHOLE}"
