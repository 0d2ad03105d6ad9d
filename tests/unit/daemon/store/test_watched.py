"""A store that answers late is away only if this process had its share of the processor."""

import asyncio
from collections.abc import Iterator
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.store import watched
from rwkv_daemon.store.watched import WatchedStore


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is late at once, and this process is never woken late."""
    monkeypatch.setattr(watched, "ANSWER_S", 0.001)
    monkeypatch.setattr(watched, "LATE", float("inf"))


def has_waited(monkeypatch: pytest.MonkeyPatch, seconds: Iterator[float]) -> None:
    """Have the kernel say so, look for look, how long this process has waited for a processor."""
    monkeypatch.setattr(watched, "waited_s", lambda: next(seconds))


async def asked(answer: "asyncio.Future[None]") -> Any:
    """What a probe says that is answered by a future."""

    async def probe() -> None:
        await answer

    store = WatchedStore(Path("store.sqlite"), "test")
    said = await store._asked("probe", probe)
    answer.cancel()
    return said


async def test_without_an_answer_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    has_waited(monkeypatch, repeat(7.0))
    assert await asked(asyncio.get_running_loop().create_future()) is None


async def test_while_this_process_waits_for_a_processor_the_store_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = asyncio.get_running_loop().create_future()

    def waits() -> Iterator[float]:
        for look in count():
            if look == 5:
                answer.set_result(None)
            yield float(look)

    has_waited(monkeypatch, waits())
    assert await asked(answer) == ""


async def test_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    has_waited(monkeypatch, map(float, count()))
    assert await asked(asyncio.get_running_loop().create_future()) is None
