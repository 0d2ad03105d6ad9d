"""Readers of streams are woken together, each within a few steps."""

import asyncio

import pytest

from rwkv_engine.serving.wakeups import ALWAYS_WOKEN, STEPS_BETWEEN, StreamWakeups, Wakeup


class CountingLoop:
    """Stands for the server's loop: counts the calls from the engine's thread, and makes them."""

    def __init__(self) -> None:
        self.calls = 0

    def call_soon_threadsafe(self, call, *args) -> None:
        self.calls += 1
        call(*args)


async def read(wakeup: Wakeup) -> bool:
    """Return whether the reader was woken."""
    woken = wakeup._event.is_set()
    if woken:
        await wakeup.wait()
    return woken


@pytest.mark.parametrize("count", [1, ALWAYS_WOKEN, 100, 256, 1000])
async def test_each_reader_reads_at_least_every_eighth_step_and_a_step_calls_the_loop_once(count: int) -> None:
    loop, streams = CountingLoop(), StreamWakeups()
    readers = [Wakeup(loop) for _ in range(count)]
    last = dict.fromkeys(readers, 0)
    for step in range(1, 50):
        for reader in readers:
            streams.grown(reader)
        streams.wake()
        assert loop.calls == step
        woken = [reader for reader in readers if await read(reader)]
        assert len(woken) == min(count, max(ALWAYS_WOKEN, count // STEPS_BETWEEN))
        last |= dict.fromkeys(woken, step)
        assert step - min(last.values()) <= STEPS_BETWEEN


async def test_a_reader_that_has_not_run_yet_takes_no_turn() -> None:
    loop, streams = CountingLoop(), StreamWakeups()
    slow, quick = [Wakeup(loop) for _ in range(ALWAYS_WOKEN)], [Wakeup(loop) for _ in range(ALWAYS_WOKEN)]
    for reader in slow:
        reader.wake()
    for reader in slow + quick:
        streams.grown(reader)
    streams.wake()
    assert [await read(reader) for reader in quick] == [True] * ALWAYS_WOKEN


async def test_a_reader_sees_what_was_there_when_it_was_woken() -> None:
    streams, seen = StreamWakeups(), []
    wakeup, tokens = Wakeup(asyncio.get_running_loop()), []

    async def reader() -> None:
        while len(seen) < 20:
            await wakeup.wait()
            seen[:] = tokens

    task = asyncio.ensure_future(reader())
    for token in range(20):
        tokens.append(token)
        streams.grown(wakeup)
        await asyncio.to_thread(streams.wake)
    await task
    assert seen == tokens
