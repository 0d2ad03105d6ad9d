"""Which requests to a loopback server without a key may come from a page in a browser."""

import pytest

from rwkvctl.http.browser_origin import trouble

JSON = {"content-type": "application/json"}
OURS = {"host": "127.0.0.1:8000"}


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", OURS),
        ("GET", {"host": "localhost:9"}),
        ("GET", {"host": "LOCALHOST"}),
        ("GET", {"host": "[::1]:8000"}),
        ("GET", {"host": "127.0.0.9"}),
        ("POST", OURS | JSON),
        ("POST", OURS | {"content-type": "Application/JSON; charset=utf-8"}),
        ("POST", OURS | {"content-type": "application/x-ndjson"}),
        ("POST", OURS | JSON | {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}),
        ("GET", OURS | {"sec-fetch-site": "none"}),
    ],
)
def test_what_programs_of_this_machine_send_is_answered(method: str, headers: dict[str, str]) -> None:
    assert trouble(method, headers) is None


@pytest.mark.parametrize(
    ("method", "headers", "status", "says"),
    [
        ("GET", {"host": "evil.example"}, 403, "must name the loopback"),
        ("POST", {"host": "localhost.evil.example:8000"} | JSON, 403, "must name the loopback"),
        ("GET", {"host": "127.0.0.1.evil.example"}, 403, "must name the loopback"),
        ("GET", {"host": "user@evil.example"}, 403, "must name the loopback"),
        ("GET", {"host": "192.168.1.4:8000"}, 403, "must name the loopback"),
        ("GET", {"host": "[::1"}, 403, "must name the loopback"),
        ("GET", {}, 403, "must name the loopback"),
        ("POST", OURS | JSON | {"origin": "http://evil.example"}, 403, "other origins"),
        ("POST", OURS | JSON | {"origin": "null"}, 403, "other origins"),
        ("POST", OURS | JSON | {"origin": ""}, 403, "other origins"),
        ("POST", OURS | JSON | {"origin": "http://127.0.0.1:8001"}, 403, "other origins"),
        ("GET", OURS | {"sec-fetch-site": "cross-site"}, 403, "other sites"),
        ("GET", OURS | {"sec-fetch-site": "same-site"}, 403, "other sites"),
        ("POST", OURS, 415, "Content-Type"),
        ("POST", OURS | {"content-type": "text/plain"}, 415, "Content-Type"),
        ("POST", OURS | {"content-type": "text/plain; application/json"}, 415, "Content-Type"),
        ("DELETE", OURS | {"content-type": "multipart/form-data"}, 415, "Content-Type"),
    ],
)
def test_what_a_page_can_have_a_browser_send_is_refused(
    method: str, headers: dict[str, str], status: int, says: str
) -> None:
    found = trouble(method, headers)
    assert found is not None
    assert (found[0], says in found[1]) == (status, True)
