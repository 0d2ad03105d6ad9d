"""Connections that have not been admitted: how many there may be, and which one is closed first."""

import asyncio
from collections.abc import Hashable

import pytest

from rwkvctl.http import unadmitted
from rwkvctl.http.unadmitted import UnadmittedConnections


async def visit(place: UnadmittedConnections, who: Hashable) -> None:
    with place.waiting(who):
        await asyncio.Event().wait()


async def come(place: UnadmittedConnections, *whos: Hashable) -> list[asyncio.Task[None]]:
    """One after another, each in a task."""
    tasks = []
    for who in whos:
        tasks.append(asyncio.ensure_future(visit(place, who)))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_one_address_has_half_and_pushes_out_its_own() -> None:
    place = UnadmittedConnections(most=4)
    tasks = await come(place, "a", "b", "a", "a", "a")
    assert [task.cancelled() for task in tasks] == [True, False, True, False, False]
    assert (place.count, place.sent_away) == (3, 2)
    await end(tasks)
    assert (place.count, len(place.standing)) == (0, 0)


async def test_when_all_places_are_taken_the_address_with_the_most_loses_one() -> None:
    place = UnadmittedConnections(most=4)
    tasks = await come(place, "a", "b", "a", "c", "d")
    assert [task.cancelled() for task in tasks] == [True, False, False, False, False]
    assert place.count == 4
    await end(tasks)


async def test_nobody_stands_there_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unadmitted, "TIMEOUT_S", 0.0)
    place = UnadmittedConnections()
    tasks = await come(place, "a")
    await asyncio.wait(tasks)
    assert (tasks[0].cancelled(), place.count) == (True, 0)


async def test_who_has_gone_in_is_not_pushed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    place, inside = UnadmittedConnections(most=2), asyncio.Event()

    async def admitted() -> None:
        with place.waiting("a"):
            pass
        await inside.wait()

    first = asyncio.ensure_future(admitted())
    tasks = await come(place, "a", "a", "a")
    assert not first.done()
    inside.set()
    await first
    await end(tasks)
