"""What is remembered of replies, and what of them is said again."""

import asyncio
from typing import Any

import pytest

from rwkv_daemon.api.last_known import MOST, LastReplies
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.watched import Health
from rwkvctl.protocol.replies import StatusReply
from rwkvctl.protocol.requests import JobRequest, StatusRequest


def status(version: str) -> StatusReply:
    return StatusReply(version=version, uptime_s=1.0, counts={}, leases=(), engines=(), running=(), waiting=())


def test_the_same_request_gets_its_last_reply() -> None:
    known = LastReplies()
    for number in range(2):
        known.keep(JobRequest(job="j1"), status(f"{number}"), 100)
    assert known.of(JobRequest(job="j1")) == status("1")
    assert known.of(JobRequest(job="j2")) is None


def test_only_so_many_and_none_that_is_long() -> None:
    known = LastReplies()
    known.keep(JobRequest(job="j0"), status("long"), 10**6)
    assert known.of(JobRequest(job="j0")) is None
    for number in range(MOST + 1):
        known.keep(JobRequest(job=f"j{number}"), status("x"), 100)
    assert known.of(JobRequest(job="j0")) is None
    assert len(known.replies) == MOST


def test_a_status_of_everything_serves_who_asked_otherwise_but_for_a_session() -> None:
    known = LastReplies()
    known.keep(StatusRequest(session="s1"), status("s1"), 10**6)
    assert known.of(StatusRequest(limit=7)) is None
    known.keep(StatusRequest(limit=500), status("all"), 10**6)
    assert known.of(StatusRequest(limit=7)) == status("all")
    assert known.of(StatusRequest(session="s2")) is None


async def answer(after: asyncio.Event) -> str:
    await after.wait()
    return "yes"


async def test_a_request_waits_for_a_store_that_is_there_and_not_for_one_that_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known, health, event = LastReplies(), Health(), asyncio.Event()
    waiting: asyncio.Task[Any] = asyncio.ensure_future(known.in_time(health, answer(event)))
    await asyncio.sleep(0)
    health.be("read-only", "the disk is full")
    await asyncio.sleep(0)
    assert not waiting.done()
    event.set()
    assert await waiting == "yes"
    never = asyncio.ensure_future(known.in_time(health, answer(asyncio.Event())))
    await asyncio.sleep(0)
    health.be("away", "it does not answer")
    with pytest.raises(StoreError, match="it does not answer"):
        await never
    monkeypatch.setattr("rwkv_daemon.api.last_known.PATIENCE_S", 0.0)
    assert await known.in_time(health, answer(event)) == "yes", "what needs no store is answered"
