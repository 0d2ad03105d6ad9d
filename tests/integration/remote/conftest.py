"""The fake server of the judge's tests, a model behind it, and runners' clients of that model."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_judge
import msgspec
import pytest
from reply_caches import MemoryCache
from waiting import soon

from rwkv_daemon.remote.dispatcher import ExchangeEvent
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.remote.reply_cache import ReplyCache
from rwkv_daemon.remote.scaled_clock import ScaledClock
from rwkv_daemon.runner.ask import Batch
from rwkv_daemon.runner.engine_client import EngineAwayError, EngineClient
from rwkv_daemon.runner.work_left import SampleUnit
from rwkv_daemon.workers.run_directory import EngineEndpoint
from rwkvctl.protocol.engine import Generated, GenerateItem, Sampling, Scored, ScoreItem, Stops, Turn
from rwkvctl.settings.endpoints import EndpointModel, parse

Do, FakeJudge, serving = fake_judge.Do, fake_judge.FakeJudge, fake_judge.serving


@pytest.fixture
def kit() -> ModuleType:
    """This module: its helpers for tests."""
    return sys.modules[__name__]


@pytest.fixture
async def server() -> AsyncIterator[Any]:
    """A server that answers "True" to everything until a test changes that."""
    async with serving(FakeJudge()) as fake:
        yield fake


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "m.sock"


@dataclass
class Serving:
    """A running model and its messages to the operator."""

    model: RemoteModel
    events: list[ExchangeEvent]
    running: asyncio.Task[None]

    async def generate(self, *items: GenerateItem) -> dict[tuple[str, int], Generated]:
        """Return the samples of some items, asked as a runner asks."""
        found = await self.ask("/v1/generate", items, {(item.id, n) for item in items for n in range(item.n)})
        return {(one.id, one.index): one for one in found if isinstance(one, Generated)}

    async def one(self, item: GenerateItem) -> Generated:
        return (await self.generate(item))[item.id, 0]

    async def score(self, item: ScoreItem) -> Scored:
        (found,) = await self.ask("/v1/score", [item], {(item.id, 0)})
        assert isinstance(found, Scored)
        return found

    async def ask(
        self,
        route: str,
        items: Iterable[GenerateItem | ScoreItem],
        places: set[tuple[str, int]],
        client: EngineClient | None = None,
    ) -> list[Generated | Scored]:
        """Return the answers to a request, by a client of its own unless one is given."""
        given, client = client, client or EngineClient(EngineEndpoint(engine="qwq", socket=str(self.model.socket)))
        unit = SampleUnit(row=0, repeat=0)
        batch = Batch(route, [msgspec.json.encode(item) for item in items], dict.fromkeys(places, unit))
        found = []
        try:
            async for answer in client.ask(batch):
                del batch.waiting[answer.id, answer.index if isinstance(answer, Generated) else 0]
                found.append(answer)
        finally:
            if given is None:
                client.close()
        return found


@contextlib.asynccontextmanager
async def remote(
    config: EndpointModel, socket: Path, *, cache: ReplyCache | None = None, speed: float = 20.0, grace_s: float = 5.0
) -> AsyncIterator[Serving]:
    """A model that runs; back-off and minutes pass `speed` times as fast as real ones."""
    events: list[ExchangeEvent] = []
    model = RemoteModel(config, cache or MemoryCache(), socket, ScaledClock(speed), tell=events.append)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(model.run(grace_s))
        try:
            await until(lambda: model._bound)
            yield Serving(model, events, running)
        finally:
            if not running.cancelling():
                running.cancel()
            await asyncio.wait([running])


def settings(fake: Any, **more: Any) -> EndpointModel:
    """A model behind the fake server."""
    return parse({"qwq": {"base_url": fake.url, "model": "QwQ-32B", "timeout_s": 60.0} | more}, "test")["qwq"]


def chat(number: int = 1, *, job: str = "j1", n: int = 1, stops: tuple[str, ...] = (), **sampling: Any) -> GenerateItem:
    return GenerateItem(
        id=f"{job}.{number}",
        messages=(Turn(role="user", content=f"What is {number} + 1?"),),
        n=n,
        keys=tuple(1000 * number + index for index in range(n)),
        sampling=Sampling(**sampling),
        stops=Stops(suffixes=stops),
        group=job,
    )


def text(number: int = 1, *, job: str = "j1", **more: Any) -> GenerateItem:
    return GenerateItem(id=f"{job}.{number}", text=f"Q: {number} + 1\nA:", keys=(number,), group=job, **more)


async def until(condition: Any) -> None:
    """Wait until a condition holds."""
    await soon(condition, "the model and its server are there")


async def patiently(ask: Callable[[], Awaitable[list[Generated | Scored]]]) -> list[Generated | Scored]:
    """Ask as a runner does: again while nobody answers."""
    while True:
        try:
            return await ask()
        except EngineAwayError:
            await asyncio.sleep(0.05)
