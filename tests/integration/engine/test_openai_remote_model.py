"""A model behind an endpoint where the server is our own engine: what comes through equals what the engine says."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from reply_caches import MemoryCache

from rwkv_daemon.remote.answers import Answerer
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkvctl.protocol.engine import Generated, GenerateItem, Sampling, Scored, ScoreItem, Stops
from rwkvctl.settings.endpoints import parse

KEY = "k" * 32


@pytest.fixture
async def model(served: Any, tmp_path: Path) -> AsyncIterator[RemoteModel]:
    keys = tmp_path / "keys"
    keys.touch(0o600)
    keys.write_text(KEY + "\n")
    table = {"base_url": served.base, "model": "tiny", "api": "completions", "keys_file": str(keys), "concurrency": 4}
    running = RemoteModel(parse({"tiny": table})["tiny"], MemoryCache(), tmp_path / "m.sock")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(running.run())
        yield running
        running.stop()
        await asyncio.wait([task])


async def answered(answerer: Answerer, item: GenerateItem | ScoreItem) -> Generated | Scored:
    answers = answerer.samples_of(item) if isinstance(item, GenerateItem) else answerer.scores_of(item)
    return await answers[0]()


async def native(served: Any, route: str, item: Any) -> dict[str, Any]:
    response = await asyncio.to_thread(served.client.post, route, content=msgspec.json.encode(item))
    return msgspec.json.decode(response.content)


async def test_the_probe(model: RemoteModel) -> None:
    found = await model.probe()
    assert (found.usage, found.stop, found.n, found.seed) == (True, "yes", "yes", "yes")
    assert (found.model, found.refused, found.no_logprobs) == ("tiny", (), "")


@pytest.mark.parametrize("stops", [Stops(), Stops(suffixes=("\n",)), Stops(suffixes=("1", "=")), Stops(tokens=("2",))])
async def test_greedy_texts(served: Any, model: RemoteModel, stops: Stops) -> None:
    item = GenerateItem(id="a", text="12+34=", keys=(7,), sampling=Sampling(max_tokens=24), stops=stops)
    found = await answered(model.answerer, item)
    own = await native(served, "/v1/generate", item)
    assert isinstance(found, Generated)
    assert found.text == own["text"]
    assert (found.stop == "length") == (own.get("stop", "length") == "length")
    assert found.usage.generated == own["usage"]["generated"]


@pytest.mark.parametrize("split", ["longest-common-prefix", "lm-eval"])
@pytest.mark.parametrize("context", ["12+34=", "7+8=  ", "Die Lösung für 北京 ist é", "x"])
async def test_scores(served: Any, model: RemoteModel, split: Any, context: str) -> None:
    item = ScoreItem(id="a", context=context, continuations=("46", " 15", "é", "北京\n\nx"), split=split)
    found = await answered(model.answerer, item)
    own = await native(served, "/v1/score", item)
    assert isinstance(found, Scored)
    assert found.error == ""
    for one, other in zip(found.scores, own["scores"], strict=True):
        assert one.logprob == pytest.approx(other["logprob"], rel=1e-5)
        assert (one.tokens, one.greedy) == (other["tokens"], other["greedy"])
