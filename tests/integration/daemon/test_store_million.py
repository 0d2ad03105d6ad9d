"""A store of a million samples: what is asked all day costs SQLite no more than with a tenth of them.

Cost is counted in steps of SQLite's virtual machine, which are the same on every machine and under every load.
"""

import contextlib
import importlib.util
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rwkv_daemon.api import router
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.store import open_store
from rwkv_daemon.store.sqlite import SqliteStore
from rwkvctl.protocol.requests import JobsRequest, SameRequest, SamplesRequest, ScoresRequest, StatusRequest
from rwkvctl.protocol.routes import AnyRequest
from rwkvctl.settings import config

BENCH = Path(__file__).resolve().parents[3] / "bench"
FEW, MANY = 500, 5000
EVERY = 100
"""Steps between two looks of the counter."""
MOST_STEPS = 50_000
"""SQLite takes more than 10 million of them a second on one slow core, so this is well below 50 ms."""
ASKED: dict[str, AnyRequest] = {
    "status": StatusRequest(),
    "scores": ScoresRequest(),
    "scores of a model": ScoresRequest(model="rwkv7-g1a-7"),
    "jobs": JobsRequest(limit=100),
    "first samples": SamplesRequest(job="j10"),
    "later samples": SamplesRequest(job="j10", after=300 * 2**20),
    "wrong samples": SamplesRequest(job="j10", wrong=True),
    "newest samples": SamplesRequest(job="j10", latest=True),
    "one sample": SameRequest(job="j10", row=3),
}


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """`bench/store.py`, which knows how a store of years is made."""
    sys.path.insert(0, str(BENCH))
    try:
        spec = importlib.util.spec_from_file_location("bench_store", BENCH / "store.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCH))
    return module


@contextlib.asynccontextmanager
async def filled(bench: ModuleType, home: Path, jobs: int, each: int) -> AsyncIterator[Node]:
    """A node whose store has so many samples for every job."""
    await bench.fill(home, jobs, each)
    path = home / "store.sqlite"
    settings = config.load({"home": str(home)}, {"HOME": "/"})
    store = await open_store(path)
    try:
        yield Node.of(settings, store, NodeBenchmarks(settings.data_dir))
    finally:
        await store.close()
        path.unlink()


async def steps(node: Node, request: AnyRequest) -> int:
    """What one request costs SQLite, once it has been asked before."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += EVERY
        return 0

    await router.answer(node, request)
    node.request_state.shared_status.forget()  # else the second reply may be the first one again, for nothing
    async with counting(node.records.store, count):
        await router.answer(node, request)
    return counted


@contextlib.asynccontextmanager
async def counting(store: Any, count: Any) -> AsyncIterator[None]:
    """Every connection of a store calls `count` as it works."""
    assert isinstance(store, SqliteStore)
    every = [store.writer, *store.readers]
    for connection in every:
        await connection.set_progress_handler(count, EVERY)
    try:
        yield
    finally:
        for connection in every:
            await connection.set_progress_handler(None, 0)  # type: ignore[arg-type]


async def costs(bench: ModuleType, home: Path, jobs: int, each: int) -> dict[str, int]:
    """What every request costs with so many samples for every job."""
    async with filled(bench, home, jobs, each) as node:
        [row] = await node.records.store.all("SELECT COUNT(*) AS n FROM sample")
        assert row["n"] == each * jobs
        return {name: await steps(node, request) for name, request in ASKED.items()}


@pytest.mark.parametrize(
    "jobs", [pytest.param(200, id="a million", marks=pytest.mark.slow("million")), pytest.param(20, id="a few")]
)
async def test_ten_times_the_samples_cost_no_more(bench: ModuleType, tmp_path: Path, jobs: int) -> None:
    few, many = [await costs(bench, tmp_path / str(each), jobs, each) for each in (FEW, MANY)]
    assert not {name: (few[name], cost) for name, cost in many.items() if cost > 2 * few[name] + EVERY}
    assert max(many.values()) <= MOST_STEPS
