"""The relay of a run: who is let in, and what is counted."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.harness.answers import KeptAnswer, KeptAnswers
from rwkv_daemon.harness.outputs.result import Traffic
from rwkv_daemon.harness.relay import EngineRelay, password_is
from rwkv_daemon.workers.run_directory import RunDir
from rwkvctl.http.server import Request, Response

TOKEN = "a-token"


def request(authorization: str | None = None, path: str = "/v1/completions", body: bytes = b"{}") -> Request:
    headers = {} if authorization is None else {"authorization": authorization}
    return Request("POST", path, {}, headers, body, None, asyncio.Event())


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[EngineRelay]:
    one = EngineRelay(RunDir(tmp_path), TOKEN, KeptAnswers(tmp_path))
    yield one
    one.close()


@pytest.mark.parametrize(
    "given", [basic(f"run:{TOKEN}"), basic(f":{TOKEN}"), basic(f"run:{TOKEN}").replace("B", "b", 1)]
)
def test_the_token_may_be_the_password_of_any_user(given: str) -> None:
    assert password_is(request(given), TOKEN)


WRONG = [None, "", "Basic", "Basic !", "Basic é", basic(TOKEN), basic(f"{TOKEN}:"), basic(f"a:{TOKEN}:"), basic("a:"),
         basic(f"run:{TOKEN}").replace("Basic", "Bearer"), f"Basic {TOKEN}"]  # fmt: skip


@pytest.mark.parametrize("given", WRONG)
def test_anything_else_is_no_password_and_is_refused_before_its_body_is_read(relay: EngineRelay, given: Any) -> None:
    assert not password_is(request(given), TOKEN)
    refused = relay.admit(request(given))
    assert refused is not None
    assert refused.status == 401
    assert TOKEN.encode() not in refused.body


@given(st.text(st.characters(codec="latin-1")))
def test_no_other_header_is_a_password(text: str) -> None:
    assert not password_is(request(text), TOKEN)
    assert not password_is(request(f"Basic {text}"), TOKEN)


def test_nothing_is_admitted_without_the_token(relay: EngineRelay) -> None:
    assert relay.admit(request(f"Bearer {TOKEN}")) is None
    assert relay.admit(request(basic(f"run:{TOKEN}"))) is None
    assert relay.admit(request(path="/health")) is not None
    assert relay.admit(request(f"Bearer {TOKEN}x")) is not None


def counted(relay: EngineRelay, asked: Any, answer: Any, status: int = 200, engine: str = "e1") -> Traffic:
    relay._count(engine, request(body=json.dumps(asked).encode()), Response(status, json.dumps(answer).encode()))
    return relay.traffic


ANSWER = {"choices": [{"finish_reason": "length"}, {"finish_reason": "stop"}, {"finish_reason": None}],
          "usage": {"prompt_tokens": 5, "completion_tokens": 7}}  # fmt: skip


def test_requests_tokens_and_cut_off_completions_are_counted(relay: EngineRelay) -> None:
    counted(relay, {"max_tokens": 7}, ANSWER)
    counted(relay, {}, ANSWER, engine="e2")
    assert counted(relay, {}, ANSWER) == Traffic(
        requests=3, refused=0, truncated=3, prompt_tokens=15, generated_tokens=21, engines=["e1", "e2"]
    )


def test_a_reply_was_cut_off_if_each_answer_with_its_text_was(relay: EngineRelay) -> None:
    def answer(text: str, reason: str) -> dict[str, Any]:
        return {"choices": [{"finish_reason": reason, "text": text}]}

    def message(text: str, reason: str) -> dict[str, Any]:
        return {"choices": [{"finish_reason": reason, "message": {"role": "assistant", "content": text}}]}

    for one in (answer(" cut ", "length"), message("long", "length"), answer("4", "length"), answer("4", "stop")):
        counted(relay, {"max_tokens": 7}, one)
    counted(relay, {"max_tokens": 1}, answer("scored", "length"))
    counted(relay, {}, {"choices": [{"finish_reason": "length", "message": {"content": None}}]})
    assert [relay.was_cut(text) for text in ("cut", " cut ", "long")] == [True, True, True]
    assert [relay.was_cut(text) for text in ("4", "scored", "never")] == [False, False, False]


@pytest.mark.parametrize("asked", [{"echo": True, "max_tokens": 5}, {"max_tokens": 1}, {"echo": True}])
def test_a_request_that_scores_its_prompt_is_cut_off_by_nothing(relay: EngineRelay, asked: Any) -> None:
    assert counted(relay, asked, ANSWER).truncated == 0


def test_a_refused_request_is_counted_as_such(relay: EngineRelay) -> None:
    assert counted(relay, {}, {"error": {"message": "no"}}, status=400) == Traffic(
        requests=1, refused=1, engines=["e1"]
    )


@pytest.mark.parametrize("answer", [b"", b"data: {}\n\n", b"[1,2]", b"\xff", b'{"usage":{"prompt_tokens":"x"}}'])
def test_an_answer_of_another_form_is_a_request_without_tokens(relay: EngineRelay, answer: bytes) -> None:
    relay._count("", request(), Response(200, answer))
    assert relay.traffic == Traffic(requests=1)


async def test_a_route_that_is_none_is_not_served(relay: EngineRelay) -> None:
    answer = await relay.handle(request(path="/v1/audio"))
    assert (answer.status, relay.traffic.requests) == (404, 0)


async def test_what_an_earlier_attempt_was_answered_is_answered_without_an_engine(tmp_path: Path) -> None:
    before = KeptAnswers(tmp_path)
    body = json.dumps(ANSWER).encode()
    with before.place("/v1/completions", b"{}") as place:
        before.keep(place, KeptAnswer("e9", body))
    before.close()
    relay = EngineRelay(RunDir(tmp_path), TOKEN, KeptAnswers(tmp_path))
    answer = await relay.handle(request())
    relay.close()
    assert (answer.status, answer.body) == (200, body)
    assert (relay.traffic.generated_tokens, relay.traffic.engines) == (7, ["e9"])
