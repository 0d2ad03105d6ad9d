"""The engine's thread: it wakes for work, takes a request whole or not at all, and reports its end."""

import queue
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from waiting import LIMIT_S, wait_for

from rwkv_engine.cpu.runner import FinishedStep
from rwkv_engine.errors import OutOfMemory, QueueFullError
from rwkv_engine.scheduling.engine_loop import Cancel, Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler, SlotInput, SlotOutput
from rwkv_engine.scheduling.tasks import GenerateTask
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness, Rates
from rwkv_engine.serving.process import HadWork
from rwkv_engine.tokenizer import for_vocabulary
from rwkvctl.protocol.engine import Generated, GenerateItem, Sampling, Stops

COMPILER = Compiler(for_vocabulary(257))


class NoStates:
    """States of a model that has none: saving and loading do nothing."""

    size_bytes = 1

    def clear(self, slot: int) -> None: ...
    def save(self, slot: int) -> object: ...
    def load(self, slot: int, payload: object) -> None: ...
    def spill(self, payload: object) -> object: ...


class Letters:
    """A model that always draws "a"; `gate` blocks its steps."""

    def __init__(self, lag: int = 0) -> None:
        self.lag = lag
        self.gate = threading.Event()
        self.gate.set()

    def launch(self, inputs: Sequence[SlotInput]) -> FinishedStep:
        self.gate.wait(LIMIT_S)
        return FinishedStep([SlotOutput((), ord("a") + 1 if entry.draw else None) for entry in inputs])


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine(Scheduler(Limits(2), NoStates(), time.monotonic), Letters(), 4, Liveness(None))
    made.start(lambda: None)
    yield made
    made.runner.gate.set()  # type: ignore[attr-defined]
    made.stop()


def task(name: str, sink: Callable[[object], None], tokens: int = 3) -> GenerateTask:
    return COMPILER.generate(GenerateItem(id=name, text="x", sampling=Sampling(max_tokens=tokens)), sink)


def test_it_answers_from_its_own_thread(engine: Engine) -> None:
    answers: queue.Queue[object] = queue.Queue()
    engine.submit([task("a", answers.put), task("b", answers.put)])
    results = [answers.get(timeout=LIMIT_S) for _ in range(2)]
    assert all(isinstance(r, Generated) and r.text == "aaa" for r in results)


def test_an_engine_that_was_a_step_ahead_of_its_last_sample_is_without_work() -> None:
    """As on a GPU, where a stop is found when the next step is under way; as long as an engine has work it does not
    unload itself."""
    engine = Engine(Scheduler(Limits(2), NoStates(), time.monotonic), Letters(lag=1), 4, Liveness(None))
    engine.start(lambda: None)
    answers: queue.Queue[Generated] = queue.Queue()
    stops = Stops(suffixes=("aa",))
    item = GenerateItem(id="a", text="x", sampling=Sampling(max_tokens=9), stops=stops)
    engine.submit([COMPILER.generate(item, answers.put)])
    assert answers.get(timeout=LIMIT_S).stop == "stop_suffix"
    had_work = HadWork(engine)
    wait_for(lambda: not had_work(), "it has no work")
    engine.stop()


@pytest.mark.parametrize(("lag", "seen"), [(0, [1, 2, 3]), (1, [0, 1, 2, 3])])
def test_after_a_step_what_it_drew_is_with_its_samples(lag: int, seen: list[int]) -> None:
    engine = Engine(Scheduler(Limits(2), NoStates(), time.monotonic), Letters(lag), 4, Liveness(None))
    one, found = task("a", lambda _: None), list[int]()
    engine.after_step = lambda: found.append(len(one.samples[0].ids))
    engine.scheduler.submit(one)
    while engine.busy:
        engine.step()
    assert found == seen


def test_readers_are_woken_also_after_a_step_that_ran_out_of_memory() -> None:
    class Full(Letters):
        def launch(self, inputs: Sequence[SlotInput]) -> FinishedStep:
            raise OutOfMemory

    engine, calls = Engine(Scheduler(Limits(2), NoStates(), time.monotonic), Full(), 4, Liveness(None)), list[int]()
    engine.after_step = lambda: calls.append(engine.shrunk)
    engine.scheduler.submit(task("a", lambda _: None))
    engine.step()
    assert calls == [1]


def test_a_request_is_queued_whole_or_not_at_all(engine: Engine) -> None:
    engine.runner.gate.clear()  # type: ignore[attr-defined]
    answers: queue.Queue[object] = queue.Queue()
    engine.submit([task(str(i), answers.put) for i in range(2)])
    wait_for(lambda: not engine.waiting, "the engine has taken up two items")
    engine.submit([task(str(i), answers.put) for i in range(3)])
    assert (engine.waiting, engine.room) == (3, 1)
    with pytest.raises(QueueFullError, match="4 items"):
        engine.submit([task(str(i), answers.put) for i in range(2)])
    assert engine.waiting == 3
    engine.runner.gate.set()  # type: ignore[attr-defined]
    assert len([answers.get(timeout=LIMIT_S) for _ in range(5)]) == 5


def test_a_cancelled_task_hears_of_it_if_asked(engine: Engine) -> None:
    answers: queue.Queue[Generated] = queue.Queue()
    endless = task("a", answers.put, 10**9)  # type: ignore[arg-type]
    engine.submit([endless])
    engine.cancel(Cancel(lambda other: other is endless, "cancelled"))
    assert answers.get(timeout=LIMIT_S).error == "cancelled"


def test_it_tells_when_it_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        lag = 0

        def launch(self, inputs: Sequence[SlotInput]) -> FinishedStep:
            raise RuntimeError("no memory")

    died, reported = threading.Event(), []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(str(args.exc_value)))
    engine = Engine(Scheduler(Limits(1), NoStates(), time.monotonic), Broken(), 4, Liveness(None))
    engine.start(died.set)
    engine.submit([task("a", lambda _: None)])
    assert died.wait(LIMIT_S)
    engine.stop()
    assert reported == ["no memory"]


def test_the_liveness_file_counts(tmp_path: Path) -> None:
    liveness, began = Liveness(tmp_path / "live"), time.monotonic_ns()
    for _ in range(3):
        liveness.beat()
    count, moment = struct.unpack("<QQ", (tmp_path / "live").read_bytes())
    assert count == 3
    assert began <= moment <= time.monotonic_ns()


def test_rates_are_those_of_the_last_seconds() -> None:
    rates = Rates()
    for second in range(20):
        rates.note(float(second), second * 100, second * 10)
    assert rates.per_second(19.5, 1950, 195) == pytest.approx((100.0, 10.0))
    assert rates.per_second(60.0, 1950, 195) == (0.0, 0.0)
