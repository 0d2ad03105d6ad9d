"""Formats of answers in the fields of OpenAI's and vLLM's clients, by the service without its server."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

import pytest
import torch

from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.runner import Runner
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.openai.formats import format_of
from rwkv_engine.openai.refusals import Refusal
from rwkv_engine.openai.request_body import BodyReader
from rwkv_engine.openai.request_types import CompletionRequest
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_engine.serving.routes import Service
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_weights.formats import load
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.http.peer_credentials import Peer
from rwkvctl.http.server import Request, Response
from rwkvctl.protocol.engine import Constraint, EngineHealth

COMPLETIONS, CHAT, NATIVE = "/v1/completions", "/v1/chat/completions", "/v1/generate"
HEALTH = EngineHealth(
    ok=True, model="tiny.pth", weights_sha256="", numerics="fp32", device="cpu", attempt="", engine_version="1",
    torch_version="", vocabulary=257, pid=1,
)  # fmt: skip
SCHEMA = {"type": "object", "properties": {"a": {"enum": [3, "é"]}}, "required": ["a"], "additionalProperties": False}
HELLO = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": None, "guided_json": None, "structured_outputs": None}, None),
        ({"structured_outputs": {"choice": None, "grammar": None}}, None),
        ({"structured_outputs": {"json_object": False}}, None),
        ({"response_format": {"type": "json_object"}}, Constraint(json=True)),
        (
            {"response_format": {"type": "json_schema",
                                 "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}},
            Constraint(json_schema=SCHEMA),
        ),
        ({"guided_json": SCHEMA}, Constraint(json_schema=SCHEMA)),
        ({"guided_json": json.dumps(SCHEMA)}, Constraint(json_schema=SCHEMA)),
        ({"guided_choice": ["a", "b"]}, Constraint(choices=("a", "b"))),
        ({"guided_regex": "a+"}, Constraint(regex="a+")),
        ({"structured_outputs": {"choice": ["a", "b"]}}, Constraint(choices=("a", "b"))),
        ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, Constraint(json_schema=SCHEMA)),
        ({"structured_outputs": {"json_object": True}}, Constraint(json=True)),
        ({"structured_outputs": {"regex": "a+"}}, Constraint(regex="a+")),
    ],
)  # fmt: skip
def test_every_way_to_say_it(fields: dict[str, Any], constraint: Constraint | None) -> None:
    asked = BodyReader().read(json.dumps({"prompt": "a", **fields}).encode(), CompletionRequest)
    found = format_of(asked)
    assert (found.constraint if found else None) == constraint
    assert found is None or found.param in fields


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object"}, "guided_choice": ["a"]},
        {"guided_regex": "a", "guided_json": SCHEMA},
        {"structured_outputs": {"regex": "a", "choice": ["a"]}},
    ],
)
def test_it_is_said_once(fields: dict[str, Any]) -> None:
    asked = BodyReader().read(json.dumps({"prompt": "a", **fields}).encode(), CompletionRequest)
    with pytest.raises(Refusal, match="already"):
        format_of(asked)


@cache
def model() -> Model:
    torch.set_num_threads(1)
    return Model.of(load.load(builtin_checkpoint_path()), "fp32")


@pytest.fixture
def service() -> Iterator[Service]:
    pool = StatePool.allocate(model().dims, 4)
    scheduler = Scheduler(Limits(4, 64, 0), pool, lambda: 0.0)
    running = Service(
        Engine(scheduler, Runner(model(), pool), 100, Liveness(None)), Compiler(for_vocabulary(257)), HEALTH
    )
    running.engine.start(lambda: None)
    yield running
    running.engine.stop()


async def answered(service: Service, path: str, body: bytes) -> tuple[int, bytes]:
    asked = Request("POST", path, {}, {}, body, Peer(1, 1, 1), asyncio.Event())
    answer = await service.handle(asked)
    whole = answer.body if isinstance(answer.body, bytes) else b"".join([part async for part in parts(answer)])
    asked.gone.set()
    return answer.status, whole


def parts(answer: Response) -> AsyncIterator[bytes]:
    assert not isinstance(answer.body, bytes)
    return answer.body


async def ask(service: Service, path: str, **body: Any) -> dict[str, Any]:
    status, whole = await answered(service, path, json.dumps(body).encode())
    assert status == 200, whole
    return json.loads(whole)


@pytest.mark.parametrize("template", ["chat", "fake-think", "base"])
async def test_a_chat_answers_with_nothing_else(service: Service, template: str) -> None:
    """The text that a template leaves to the model before the answer is generated, and is no part of the answer."""
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    body: dict[str, Any] = {"messages": HELLO, "model": f"tiny:{template}", "max_tokens": 90, "temperature": 1.5}
    said = await ask(service, CHAT, response_format=wanted, n=3, **body)
    for choice in said["choices"]:
        assert choice["finish_reason"] == "stop"
        content = choice["message"]["content"]
        assert json.loads(content) in [{"a": 3}, {"a": "é"}]
        assert content[0] == "{"
    chosen = await ask(service, CHAT, guided_choice=["yes", "no"], n=4, **body)
    assert {choice["message"]["content"] for choice in chosen["choices"]} <= {"yes", "no"}


async def test_a_stream_says_it_in_pieces(service: Service) -> None:
    body = {"messages": HELLO, "guided_regex": "[ab]{8}é", "stream": True, "logprobs": True}
    status, whole = await answered(service, CHAT, json.dumps(body).encode())
    assert status == 200
    events = [json.loads(line[6:]) for line in whole.split(b"\n\n") if line.startswith(b"data: {")]
    deltas = [event["choices"][0]["delta"].get("content", "") for event in events]
    assert len("".join(deltas)) == 9
    assert "".join(deltas)[-1] == "é"
    assert len([delta for delta in deltas if delta]) > 4


async def test_a_completion_is_the_whole_match(service: Service) -> None:
    said = await ask(service, COMPLETIONS, prompt=["1+1=", "2+2="], guided_regex="[0-9]{3}", n=2, max_tokens=9)
    assert all(choice["text"].isdigit() and len(choice["text"]) == 3 for choice in said["choices"])
    assert {choice["finish_reason"] for choice in said["choices"]} == {"stop"}
    cut = await ask(service, COMPLETIONS, prompt="1+1=", guided_regex="[0-9]{30}", max_tokens=4)
    assert cut["choices"][0]["finish_reason"] == "length"
    ended = await ask(service, COMPLETIONS, prompt="1+1=", guided_choice=["a"], ignore_eos=True)
    assert (ended["choices"][0]["text"], ended["choices"][0]["finish_reason"]) == ("a", "stop")


async def test_a_thought_has_no_format(service: Service) -> None:
    body = {"messages": HELLO, "model": "tiny:think", "response_format": {"type": "json_object"}}
    status, whole = await answered(service, CHAT, json.dumps(body).encode())
    assert (status, json.loads(whole)["error"]["param"]) == (400, "response_format")


async def test_the_native_route_takes_constraints_and_refuses_them_by_line(service: Service) -> None:
    good = {"id": "a", "text": "1", "constraint": {"json_schema": SCHEMA}, "sampling": {"max_tokens": 90}}
    status, whole = await answered(service, NATIVE, json.dumps(good).encode())
    assert (status, json.loads(json.loads(whole)["text"])["a"] in [3, "é"]) == (200, True)
    deep = b'{"id": "a", "text": "1", "constraint": {"json_schema": {"enum": ' + b"[" * 9000 + b"]" * 9000 + b"}}}"
    for line, words in [
        (json.dumps(good | {"constraint": {"regex": "(a"}}).encode(), "line 2: constraint: "),
        (json.dumps(good | {"constraint": {"regex": 5}}).encode(), "line 2: "),
        (json.dumps(good | {"constraint": {}}).encode(), "line 2: constraint: set exactly one"),
        (deep, "line 2: "),
    ]:
        status, whole = await answered(service, NATIVE, json.dumps(good).encode() + b"\n" + line)
        assert (status, json.loads(whole)["detail"][: len(words)]) == (400, words)
