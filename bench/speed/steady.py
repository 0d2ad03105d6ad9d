"""A whole engine with a full batch of samples, which are drawn, matched with their stops and read by clients."""

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import msgspec
from speed.profile_rig import ProfileRig

from rwkv_engine.gpu.memory_plan import PREFILL_TOKENS
from rwkv_engine.openai.text_stream import TextStream
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.sample import Sample
from rwkv_engine.scheduling.scheduler import Limits, Scheduler
from rwkv_engine.scheduling.tasks import GenerateTask
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_engine.serving.wakeups import StreamWakeups, Wakeup
from rwkvctl.protocol.engine import GenerateItem, Sampling, Stops

SUFFIXES = ("\n\nUser:", "\n\nQ:")
LEAD = 3  # steps after which an engine that runs a step ahead is in its stride again
# Random weights give logits of spread 1 over the whole vocabulary; at this temperature they are as uneven as a trained
# model's (entropy about 3 nats), so that top-p cuts to some tens of tokens and the sampler does what it mostly does.
TEMPERATURE = 0.25


def sampling(tokens: int) -> Sampling:
    """Return sampling as evaluations use it, with top-p and penalties, at a temperature for random weights."""
    return Sampling(
        max_tokens=tokens, temperature=TEMPERATURE, top_p=0.9, presence=0.5, frequency=0.1, decay=0.996
    )  # fmt: skip


def prompt(draw: random.Random, vocabulary: int, length: int) -> tuple[int, ...]:
    """Draw random token ids, neither 0 nor beyond the tokens of the World vocabulary."""
    return tuple(draw.randrange(1, min(vocabulary, 65530)) for _ in range(length))


@dataclass(slots=True)
class BusyEngine:
    """An engine with `batch` samples under way, stepped from outside."""

    engine: Engine
    batch: int
    tasks: list[GenerateTask]

    @classmethod
    def of(cls, rig: ProfileRig, compiler: Compiler, batch: int, prompt_tokens: int, tokens: int) -> "BusyEngine":
        """Start samples of `tokens` tokens each and go on until all of them decode."""
        made = engine(rig, batch)
        draw = random.Random(batch)
        items = [
            GenerateItem(
                id=str(place),
                ids=prompt(draw, compiler.tokenizer.size, prompt_tokens),
                keys=(draw.getrandbits(64),),
                sampling=sampling(tokens),
                stops=Stops(end_of_text=False, suffixes=SUFFIXES),
            )
            for place in range(batch)
        ]
        tasks = [compiler.generate(item, _lost) for item in items]
        for task in tasks:
            made.scheduler.submit(task)
        while made.scheduler.waiting or not all(sequence.drawn > 1 for sequence in made.scheduler.running.values()):
            made.step()
        return cls(made, batch, tasks)

    @property
    def samples(self) -> list[Sample]:
        return [task.samples[0] for task in self.tasks]

    def step_s(self, steps: int) -> float:
        """Return the seconds of a step on the wall clock, averaged over `steps` steps."""
        for _ in range(min(LEAD, steps)):
            self.engine.step()
        before = self.engine.scheduler.counters.decode_tokens
        began = time.perf_counter()
        for _ in range(steps):
            self.engine.step()
        spent = time.perf_counter() - began
        if self.engine.scheduler.counters.decode_tokens - before != steps * self.batch:
            raise RuntimeError("the batch did not stay full: a sample ended")
        return spent / steps


def engine(rig: ProfileRig, batch: int) -> Engine:
    """Return an engine as it is served, but without its thread and without caches."""
    rows = rig.runner.prefill.space.decay.shape[0]
    limits = Limits(batch, min(PREFILL_TOKENS[0], rows), cache_bytes=0, kept_bytes=0)
    return Engine(Scheduler(limits, rig.runner.pool, time.monotonic), rig.runner, 1 << 20, Liveness(None))


def prompts_s(rig: ProfileRig, compiler: Compiler, prompts: Sequence[tuple[int, ...]]) -> float:
    """Return the seconds from empty slots to the first drawn token of all prompts; token 0 replaces each first
    token."""
    answers: list[object] = []
    made = engine(rig, len(prompts))
    ending = Sampling(max_tokens=1)
    items = [GenerateItem(id="", ids=ids[1:], sampling=ending, stops=Stops(end_of_text=False)) for ids in prompts]
    tasks = [compiler.generate(item, answers.append) for item in items]
    began = time.perf_counter()
    for task in tasks:
        made.scheduler.submit(task)
    while not made.scheduler.idle:
        made.step()
    spent = time.perf_counter() - began
    assert len(answers) == len(prompts)
    return spent


def _lost(answer: object) -> None:
    raise RuntimeError(f"a sample ended within the measurement: {answer}")


@dataclass(slots=True)
class Readers:
    """One coroutine a sample on a thread of its own, as a server has one a stream: when it is woken, it cuts the new
    text, encodes it and gives it to nobody."""

    engine: BusyEngine
    characters: int = 0
    _wakeups: list[Wakeup] = field(default_factory=list)
    _ready: threading.Event = field(default_factory=threading.Event)
    _over: bool = False
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read_all()), daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for wakeup in self._wakeups:
            wakeup.wake()
        assert self._thread is not None
        self._thread.join()

    def attend(self, *, attending: bool) -> None:
        """Tell the readers of new tokens, or not: then also of none that they have not been told of."""
        streams = StreamWakeups()
        self.engine.engine.after_step = streams.wake
        for sample, wakeup in zip(self.engine.samples, self._wakeups, strict=True):
            sample.on_token = partial(streams.grown, wakeup) if attending else None

    def settle(self) -> None:
        """Wait until the woken readers have read: what comes next has the interpreter to itself."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._wakeups[0].loop).result()

    async def _read_all(self) -> None:
        self._wakeups = [Wakeup(asyncio.get_running_loop()) for _ in self.engine.samples]
        async with asyncio.TaskGroup() as group:
            for sample, wakeup in zip(self.engine.samples, self._wakeups, strict=True):
                group.create_task(self._read(sample, wakeup))
            self._ready.set()

    async def _read(self, sample: Sample, wakeup: Wakeup) -> None:
        text_stream = TextStream(sample.tokenizer, sample.rule.stops.suffixes)
        while not self._over:
            await wakeup.wait()
            piece = text_stream.next(sample)
            if piece.text:
                self.characters += len(msgspec.json.encode({"index": 0, "text": piece.text}))
