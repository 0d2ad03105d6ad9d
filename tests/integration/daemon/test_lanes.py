"""No client's read holds up what the daemon does by itself, on both databases."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import TypeVar

import pytest
from waiting import LIMIT_S, soon

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.store import Store, read_lanes
from rwkv_daemon.store.queries.jobs import add_session
from rwkv_daemon.store.read_lanes import AT_ONCE, LONGEST_S, READER, LaneReader, LateError, ReadLane, reading
from rwkvctl.settings import config

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) AS n FROM n WHERE i < 0"
Value = TypeVar("Value")


async def in_lane(lane: ReadLane, what: Awaitable[Value], who: str = "somebody") -> Value:
    """What a client of a lane does."""
    with reading(LaneReader(lane, who)):
        return await what


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is ended by its time here, unless a test says so."""
    for lane in ReadLane:
        monkeypatch.setitem(LONGEST_S, lane, None)


@contextlib.asynccontextmanager
async def full(store: Store, *every: ReadLane) -> AsyncIterator[None]:
    """While more queries than there are connections of these lanes never end."""
    asked = [
        asyncio.ensure_future(in_lane(lane, store.all(ENDLESS))) for lane in every for _ in range(AT_ONCE[lane] + 2)
    ]
    try:
        turns = [store.lanes[lane] for lane in every]  # type: ignore[attr-defined]  # both databases have them
        await soon(lambda: all(not one.free and one.waiting for one in turns), "the lanes are full")
        yield
    finally:
        for task in asked:
            task.cancel()
        await asyncio.wait(asked, timeout=LIMIT_S)


async def test_clients_that_fill_their_lanes_hold_up_nobody_else(store: Store, tmp_path: Path) -> None:
    settings = config.load({"home": str(tmp_path)}, {"HOME": "/"})
    node = Node.of(settings, store, NodeBenchmarks(settings.data_dir))

    async def change() -> None:
        """What a request does that changes something: under the owner's lock, and in a transaction."""
        async with node.records.owner:
            assert await store.one("SELECT COUNT(*) AS n FROM session")
            assert READER.get() == read_lanes.OURSELVES
        async with node.records.change() as changing:
            await add_session(changing.db, "s", "{}", "host", ("0", "c"))
            assert await store.one("SELECT COUNT(*) AS n FROM session")
        assert READER.get().lane is ReadLane.REQUESTS

    async with asyncio.timeout(LIMIT_S), full(store, ReadLane.REQUESTS, ReadLane.LONG):
        assert await store.one("SELECT COUNT(*) AS n FROM session")
        await in_lane(ReadLane.REQUESTS, change())
        assert len(await store.all("SELECT id FROM session")) == 1


@pytest.mark.parametrize("lane", [ReadLane.REQUESTS, ReadLane.LONG])
async def test_a_query_that_nobody_waits_for_is_ended(store: Store, lane: ReadLane) -> None:
    async with asyncio.timeout(LIMIT_S), full(store, lane):
        pass
    async with asyncio.timeout(LIMIT_S):
        for _ in range(AT_ONCE[lane] + 1):
            assert await in_lane(lane, store.one("SELECT 1 AS n"))


async def test_a_query_whose_time_is_over_is_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LONGEST_S, ReadLane.LONG, 0.05)
    async with asyncio.timeout(LIMIT_S):
        for _ in range(AT_ONCE[ReadLane.LONG] + 1):
            with pytest.raises(LateError, match=r"took more than 0\.05 s"):
                await in_lane(ReadLane.LONG, store.all(ENDLESS))
    monkeypatch.setitem(LONGEST_S, ReadLane.LONG, None)
    async with asyncio.timeout(LIMIT_S):
        assert await in_lane(ReadLane.LONG, store.one("SELECT 1 AS n"))


async def test_a_store_closes_while_queries_run(store: Store) -> None:
    asked = [asyncio.ensure_future(in_lane(ReadLane.LONG, store.all(ENDLESS))) for _ in range(2)]
    await soon(lambda: not store.lanes[ReadLane.LONG].free, "they run")  # type: ignore[attr-defined]
    for task in asked:
        task.cancel()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.wait(asked)
        await store.close()
