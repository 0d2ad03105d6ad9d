"""The service without its server: slow readers, clients that disconnect, an echo that is scored in parts."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from waiting import soon

from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.runner import Runner
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_engine.serving.in_flight import RequestInFlight
from rwkv_engine.serving.routes import Service, lines
from rwkv_engine.serving.wakeups import Wakeup
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_weights.formats import load
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.http.peer_credentials import Peer
from rwkvctl.http.server import PIECE_BYTES, Request, Response
from rwkvctl.protocol.engine import EngineHealth, Scored

HEALTH = EngineHealth(
    ok=True, model="tiny.pth", weights_sha256="", numerics="fp32", device="cpu", attempt="", engine_version="1",
    torch_version="", vocabulary=257, pid=1,
)  # fmt: skip
PEER = Peer(1, 1, 1)


@cache
def model() -> Model:
    torch.set_num_threads(1)
    return Model.of(load.load(builtin_checkpoint_path()), "fp32")


def service_of(slots: int = 4, prefill_tokens: int = 64, cache_bytes: int = 1 << 20) -> Service:
    pool = StatePool.allocate(model().dims, slots)
    scheduler = Scheduler(Limits(slots, prefill_tokens, cache_bytes), pool, lambda: 0.0)
    engine = Engine(scheduler, Runner(model(), pool), 100, Liveness(None))
    return Service(engine, Compiler(for_vocabulary(257)), HEALTH)


@pytest.fixture
def service() -> Iterator[Service]:
    running = service_of()
    running.engine.start(lambda: None)
    yield running
    running.engine.stop()


def request(body: dict[str, Any], path: str = "/v1/completions", method: str = "POST", **headers: str) -> Request:
    return Request(method, path, {}, headers, json.dumps(body).encode(), PEER, asyncio.Event())


async def ask(service: Service, **body: Any) -> dict[str, Any]:
    asked = request(body)
    answer = await service.handle(asked)
    asked.gone.set()
    assert answer.status == 200, answer.body
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


def stream_of(answer: Response) -> AsyncIterator[bytes]:
    assert answer.content_type.startswith("text/event-stream")
    assert not isinstance(answer.body, bytes)
    return answer.body


async def settled(service: Service) -> None:
    engine = service.engine
    await soon(lambda: not (engine.scheduler.running or engine.waiting), "the engine has nothing to do")


def texts(events: list[bytes]) -> list[str]:
    values = [json.loads(one.removeprefix(b"data: ")) for one in events if one.startswith(b"data: {")]
    return [choice["text"] for value in values for choice in value["choices"]]


async def test_a_reader_that_comes_late_gets_the_rest_in_one_piece(service: Service) -> None:
    body = {"prompt": "12+34=", "max_tokens": 60, "ignore_eos": True, "seed": 1, "n": 2}
    asked = request(body | {"stream": True})
    pieces = stream_of(await service.handle(asked))
    events = [await anext(pieces)]
    await settled(service)
    events += [piece async for piece in pieces]
    asked.gone.set()
    assert len(events) <= 5, "a first piece, what was left of each sample, the end"
    whole = await ask(service, **body)
    assert sorted(len(choice["text"]) for choice in whole["choices"]) == [60, 60]
    assert sorted("".join(texts(events))) == sorted("".join(choice["text"] for choice in whole["choices"]))


async def test_a_client_that_goes_ends_its_samples(service: Service) -> None:
    asked = request({"prompt": ["a", "b", "c", "d", "e"], "max_tokens": 10**6, "ignore_eos": True, "stream": True})
    pieces = stream_of(await service.handle(asked))
    await anext(pieces)
    asked.gone.set()
    await settled(service)
    assert [piece async for piece in pieces][-1] == b"data: [DONE]\n\n"
    assert (await ask(service, prompt="12+34=", max_tokens=2, temperature=0))["choices"][0]["text"] == "46"


async def test_deleting_a_request_is_an_error_in_its_stream(service: Service) -> None:
    asked = request({"prompt": "a", "max_tokens": 10**6, "ignore_eos": True, "stream": True})
    pieces = stream_of(await service.handle(asked))
    first = json.loads((await anext(pieces)).removeprefix(b"data: "))
    deleted = await service.handle(request({}, f"/v1/requests/{first['id']}", "DELETE"))
    assert deleted.status == 200
    rest = [piece async for piece in pieces]
    asked.gone.set()
    assert json.loads(rest[-2].removeprefix(b"data: "))["error"]["message"] == "cancelled"
    assert rest[-1] == b"data: [DONE]\n\n"


@pytest.mark.parametrize(("slots", "prefill", "cache_bytes"), [(1, 3, 0), (3, 7, 1 << 20), (5, 1000, 1 << 22)])
async def test_echoed_numbers_do_not_depend_on_chunks_slots_or_cache(
    service: Service, slots: int, prefill: int, cache_bytes: int
) -> None:
    text = "a prompt that is fed in chunks, 12+34="
    body = {"prompt": [text, text[:20], text], "echo": True, "logprobs": 2, "max_tokens": 2, "temperature": 0, "n": 2}
    wanted = (await ask(service, **body))["choices"]
    other = service_of(slots, prefill, cache_bytes)
    other.engine.start(lambda: None)
    try:
        for _ in range(2):
            assert (await ask(other, **body))["choices"] == wanted
        only = (await ask(other, **body | {"max_tokens": 0}))["choices"]
    finally:
        other.engine.stop()
    assert only[0]["logprobs"]["token_logprobs"] == wanted[0]["logprobs"]["token_logprobs"][: len(text)]


async def test_one_token_is_the_likeliest_by_its_very_number(service: Service) -> None:
    answer = await ask(service, prompt="12+34=46\n", echo=True, logprobs=1, max_tokens=1, temperature=0)
    scores = answer["choices"][0]["logprobs"]
    assert len(scores["token_logprobs"]) == len("12+34=46\n") + 1
    assert scores["token_logprobs"][6:] == [max(top.values()) for top in scores["top_logprobs"][6:]]


async def native(service: Service, **item: Any) -> list[dict[str, Any]]:
    asked = request(item, "/v1/generate")
    answer = await service.handle(asked)
    assert not isinstance(answer.body, bytes), answer.body
    found = [json.loads(line) async for lines in answer.body for line in lines.splitlines()]
    asked.gone.set()
    return sorted(found, key=lambda one: one.get("index", 0))


async def test_the_native_route_has_the_same_numbers(service: Service) -> None:
    sampling = {"max_tokens": 6, "logprobs": 3, "logit_bias": [[58, 1.5]]}
    one, two = await native(service, id="a", text="12+34=", n=2, sampling=sampling, stops={"suffixes": ["\n\n"]})
    body = {"prompt": "12+34=", "max_tokens": 6, "temperature": 0, "logprobs": 3, "logit_bias": {"58": 1.5}}
    theirs = (await ask(service, **body, stop="\n\n"))["choices"][0]
    assert one["logprobs"] == two["logprobs"]
    assert [entry["token"] for entry in one["logprobs"]] == one["ids"]
    assert [entry["logprob"] for entry in one["logprobs"]] == theirs["logprobs"]["token_logprobs"][: len(one["ids"])]
    assert all(len(entry["top"]) == 3 for entry in one["logprobs"])
    assert "logprobs" not in (await native(service, id="a", text="a", sampling={"max_tokens": 1}))[0]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"text": "a", "sampling": {"max_tokens": 0}}, "max_tokens is 0"),
        ({"text": "a", "sampling": {"logprobs": 21}}, "logprobs is 21"),
        ({"text": "a", "sampling": {"logprobs": -2}}, "logprobs is -2"),
        ({"text": "a", "sampling": {"logit_bias": [[257, 1.0]]}}, "the id 257"),
        ({"text": "a", "sampling": {"logit_bias": [[5, 101.0]]}}, "logit_bias"),
        ({"ids": [5] * (2**20 + 1)}, "1048577 tokens"),
    ],
)
async def test_the_native_route_refuses_by_name(service: Service, item: dict[str, Any], words: str) -> None:
    answer = await service.handle(request({"id": "a"} | item, "/v1/generate"))
    assert answer.status == 400
    assert isinstance(answer.body, bytes)
    assert words in json.loads(answer.body)["detail"]


async def test_many_results_that_are_ready_at_once_come_in_bounded_pieces() -> None:
    in_flight = RequestInFlight(Wakeup(asyncio.get_running_loop()), expected=1000)
    for number in range(1000):
        in_flight.sink(Scored(id=f"{number}-" + "x" * 1000))
    pieces = [piece async for piece in lines(in_flight)]
    assert max(map(len, pieces)) < PIECE_BYTES + 2000
    assert [json.loads(line)["id"].split("-")[0] for line in b"".join(pieces).splitlines()] == list(
        map(str, range(1000))
    )


@pytest.mark.parametrize(("header", "status"), [("", 401), ("Bearer no", 401), ("Basic key", 401), ("bearer key", 200)])
async def test_the_key_is_asked_for_over_tcp_only(service: Service, header: str, status: int) -> None:
    service.openai.api_key = "key"
    asked = request({}, "/v1/models", "GET", authorization=header)
    assert (await service.handle(asked)).status == 200
    over_tcp = Request(asked.method, asked.path, {}, asked.headers, b"", None, asyncio.Event())
    assert (await service.handle(over_tcp)).status == status


@pytest.mark.parametrize("name", ["", "tiny.pth", "tiny", "tiny:think"])
async def test_the_model_has_several_names(service: Service, name: str) -> None:
    messages = [{"role": "user", "content": "a"}]
    answer = await service.handle(request({"model": name, "messages": messages}, "/tokenize"))
    assert isinstance(answer.body, bytes)
    prompt = "User: a\n\nAssistant:" + (" <think" if name.endswith("think") else "")
    assert json.loads(answer.body)["count"] == len(prompt)


async def test_unknown_routes_are_told_in_the_shape_of_who_asks(service: Service) -> None:
    ours = await service.handle(request({}, "/v1/nothing", "GET"))
    theirs = await service.handle(
        Request("GET", "/v1/nothing", {}, {"host": "localhost:8000"}, b"", None, asyncio.Event())
    )
    assert (ours.status, theirs.status) == (404, 404)
    assert isinstance(ours.body, bytes)
    assert isinstance(theirs.body, bytes)
    assert set(json.loads(ours.body)) == {"code", "detail", "hint"}
    assert set(json.loads(theirs.body)) == {"error"}
