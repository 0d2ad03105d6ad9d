"""Readers of streams are woken together after a step, in turn and not too often."""

import asyncio
import sys
import threading
from dataclasses import dataclass, field

import pytest

from rwkv_engine.serving.wakeups import TEXTS_A_SECOND, TEXTS_AT_ONCE, StreamWakeups, Wakeup


class CountingLoop:
    """Stands for the server's loop: counts the calls from the engine's thread, and makes them."""

    def __init__(self) -> None:
        self.calls = 0

    def call_soon_threadsafe(self, call, *args) -> None:
        self.calls += 1
        call(*args)


@dataclass
class Steps:
    """Steps of a device in which every reader's samples grow."""

    readers: list[Wakeup]
    step_s: float
    now_s: float = 0.0
    read_at: dict[Wakeup, float] = field(default_factory=dict)
    longest_s: float = 0.0
    texts: int = 0

    def __post_init__(self) -> None:
        self.streams = StreamWakeups(lambda: self.now_s)

    async def run(self, count: int) -> None:
        for _ in range(count):
            self.now_s += self.step_s
            for reader in self.readers:
                self.streams.grown(reader)
            self.streams.wake()
            for reader in self.readers:
                if reader._event.is_set():
                    await reader.wait()
                    self.longest_s = max(self.longest_s, self.now_s - self.read_at.get(reader, 0.0))
                    self.read_at[reader] = self.now_s
                    self.texts += reader.texts


@pytest.mark.parametrize("step_s", [0.0005, 0.003, 0.007, 0.045, 0.2])
@pytest.mark.parametrize(
    "texts", [[1], [1] * 32, [1] * 257, [1] * 512, [1] * 1023, [512], [128] * 4, [300, *[1] * 212], [1, 1000, 1]]
)
async def test_readers_take_turns_and_read_so_many_texts_a_second(texts: list[int], step_s: float) -> None:
    loop = CountingLoop()
    steps = Steps([Wakeup(loop, count) for count in texts], step_s)
    await steps.run(100)
    assert loop.calls <= 100, "a step calls the loop at most once"
    spent_s = 100 * step_s
    assert steps.texts <= TEXTS_AT_ONCE + spent_s * TEXTS_A_SECOND + max(texts)
    round_s = sum(texts) / TEXTS_A_SECOND
    assert steps.longest_s <= max(step_s, round_s + 2 * step_s + max(texts) / TEXTS_A_SECOND)
    if round_s <= step_s and sum(texts) <= TEXTS_AT_ONCE:
        assert steps.texts == 100 * sum(texts), "where there is time, each token is read as it comes"


async def test_a_reader_that_has_not_run_yet_takes_no_turn() -> None:
    loop, streams = CountingLoop(), StreamWakeups(lambda: 0.0)
    slow, quick = [[Wakeup(loop) for _ in range(TEXTS_AT_ONCE)] for _ in range(2)]
    for reader in slow:
        reader.wake()
    for reader in slow + quick:
        streams.grown(reader)
    streams.wake()
    assert all(reader._event.is_set() for reader in quick)


async def test_no_token_is_missed_however_the_threads_alternate() -> None:
    """The engine's thread runs free, and the interpreter changes threads as often as it can."""
    wanted, before = 2000, sys.getswitchinterval()
    streams = StreamWakeups()
    wakeups = [Wakeup(asyncio.get_running_loop()) for _ in range(20)]
    tokens: list[list[int]] = [[] for _ in wakeups]

    async def read(number: int) -> None:
        while len(tokens[number]) < wanted:
            await wakeups[number].wait()

    def generate() -> None:
        for token in range(wanted):
            for number, wakeup in enumerate(wakeups):
                tokens[number].append(token)
                if token == wanted - 1:
                    wakeup.wake()  # as the end of a sample does
                else:
                    streams.grown(wakeup)
            streams.wake()

    sys.setswitchinterval(1e-6)
    engine = threading.Thread(target=generate)
    engine.start()
    try:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for number in range(len(wakeups)):
                tasks.create_task(read(number))
    finally:
        sys.setswitchinterval(before)
        engine.join()


def test_a_reader_that_is_just_clearing_its_wakeup_can_be_woken_again() -> None:
    """It clears between the engine's question and what the engine would store."""
    loop = CountingLoop()

    class Clearing(Wakeup):
        @property
        def _woken(self) -> bool:
            return self.__dict__.setdefault("woken", True) and not self.__dict__.update(woken=False)

        @_woken.setter
        def _woken(self, value: bool) -> None:
            self.__dict__["woken"] = value

    wakeup = Clearing(loop)
    wakeup._woken = True
    wakeup.wake()
    wakeup.wake()
    assert wakeup._event.is_set()
