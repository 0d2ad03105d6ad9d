"""A server without a key serves programs of this machine, but not web pages in its users' browsers."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from waiting import LIMIT_S


@pytest.fixture(scope="module")
def keyless(start_served: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    running = start_served(tmp_path_factory.mktemp("keyless"))
    yield running
    running.close()


BODY = b'{"prompt": "a", "max_tokens": 1}'
ITEM = b'{"id": "a", "text": "a", "sampling": {"max_tokens": 1}}\n'


@pytest.mark.parametrize(
    ("path", "headers", "status", "says"),
    [
        ("/v1/completions", {"content-type": "text/plain"}, 415, "Content-Type must be application/json"),
        ("/v1/completions", {"content-type": "application/json", "host": "evil.example"}, 403, "the loopback"),
        ("/v1/completions", {"content-type": "application/json", "origin": "http://evil.example"}, 403, "origins"),
        ("/v1/generate", {"content-type": "text/plain"}, 415, "Content-Type must be application/json"),
        ("/v1/generate", {"content-type": "application/x-ndjson", "origin": "null"}, 403, "origins"),
        ("/tokenize", {}, 415, "Content-Type must be application/json"),
    ],
)
def test_what_a_page_sends_is_refused_with_a_sentence(
    keyless: Any, path: str, headers: dict[str, str], status: int, says: str
) -> None:
    with httpx.Client(base_url=keyless.root, timeout=LIMIT_S) as page:
        answer = page.post(path, content=ITEM if path == "/v1/generate" else BODY, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, says in error["message"], error["code"]) == (status, True, "not_from_a_page")


def test_a_name_that_a_page_points_here_reads_nothing(keyless: Any) -> None:
    with httpx.Client(base_url=keyless.root, timeout=LIMIT_S) as page:
        for path in ("/v1/models", "/health", "/v1/health", "/v1/stats", "/version"):
            assert page.get(path, headers={"host": "evil.example:8000"}).status_code == 403


def test_programs_are_answered(keyless: Any) -> None:
    with httpx.Client(base_url=keyless.root, timeout=LIMIT_S) as program:
        assert program.post("/v1/completions", json={"prompt": "a", "max_tokens": 1}).status_code == 200
        sent = program.post("/v1/generate", content=ITEM, headers={"content-type": "application/x-ndjson"})
        assert sent.status_code == 200
        assert program.get("/v1/models").status_code == 200
