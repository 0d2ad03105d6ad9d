"""The engine as it serves: its own thread, answers of many lengths that end and make room, results written as lines."""

import asyncio
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import msgspec
from speed import targets
from speed.bench_device import BenchDevice
from speed.clock import ROUNDS, Spread, spread
from speed.profile_rig import MeasuredModel, ProfileRig
from speed.steady import SUFFIXES, engine, prompt, sampling

from rwkv_engine.scheduling.engine_loop import Engine, StepOutcome, StepRunner
from rwkv_engine.scheduling.scheduler import Scheduler, SlotInput
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.in_flight import RequestsInFlight
from rwkvctl.protocol.engine import GenerateItem, Stops
from rwkvctl.protocol.numerics import Numerics

WAVES = 3  # requests for each slot: the first wave fills the batch, the last one empties it


@dataclass(slots=True)
class TimedRunner:
    """A runner that records at each launch the time, the decoded tokens, and whether the batch is and stays full."""

    runner: StepRunner
    scheduler: Scheduler
    lag: int = 0
    notes: list[tuple[float, int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lag = self.runner.lag

    def launch(self, inputs: Sequence[SlotInput]) -> StepOutcome:
        kept = self.scheduler.waiting > 0 and len(self.scheduler.running) == self.scheduler.limits.slots
        self.notes.append((time.perf_counter(), self.scheduler.counters.decode_tokens, kept))
        return self.runner.launch(inputs)

    def windows(self, count: int) -> list[float]:
        """Return the seconds per token while the batch was kept full, for `count` runs of launches."""
        kept = [(at, tokens) for at, tokens, full in self.notes if full]
        marks = [kept[place * (len(kept) - 1) // count] for place in range(count + 1)]
        pairs = [(early, late) for early, late in pairwise(marks) if late[1] > early[1]]
        return [(late[0] - early[0]) / (late[1] - early[1]) for early, late in pairs]


def serving(
    bench: BenchDevice,
    size: str,
    subject: MeasuredModel,
    name: Numerics,
    rig: ProfileRig,
    batch: int,
    prompt_tokens: int,
    tokens: int,
) -> dict[str, object]:
    """Measure prompts of one length with answers of `tokens` tokens on average, each of half to one and a half of
    that."""
    made = engine(rig, batch)
    timed = TimedRunner(rig.runner, made.scheduler)
    made.runner = timed
    draw = random.Random(5)
    items = [
        GenerateItem(
            id=str(number),
            ids=prompt(draw, subject.compiler.tokenizer.size, prompt_tokens),
            keys=(draw.getrandbits(64),),
            sampling=sampling(draw.randrange(max(2, tokens // 2), tokens * 3 // 2 + 1)),
            stops=Stops(end_of_text=False, suffixes=SUFFIXES),
        )
        for number in range(WAVES * batch)
    ]
    with Path(os.devnull).open("wb") as out:
        spent, written = asyncio.run(_serve(made, subject.compiler, items, out))
    decoded = made.scheduler.counters.decode_tokens
    speed: Spread = spread(timed.windows(ROUNDS)).of(1)
    peer = targets.SERVED if size == targets.SERVED_SIZE and "H200" in bench.card else None
    return {
        "kind": "serving",
        "size": size,
        "numerics": name,
        "batch": batch,
        "prompt": prompt_tokens,
        "tokens": tokens,
        "requests": len(items),
        "tok_s": {"E": speed._asdict()},
        "whole_tok_s": decoded / spent,
        "bytes": written,
        "published": {"rwkv-sglang": peer, "ratio": speed.median / peer} if peer else None,
        "targets": [],
    }


async def _serve(made: Engine, compiler: Compiler, items: Sequence[GenerateItem], out: BinaryIO) -> tuple[float, int]:
    """Return (seconds, bytes of results) of all items."""
    requests, gone, written = RequestsInFlight(made), asyncio.Event(), 0
    began = time.perf_counter()
    made.start(lambda: None)
    in_flight = requests.launch(gone, lambda sink, _: [compiler.generate(item, sink) for item in items])
    while results := await in_flight.results():
        written += out.write(b"".join(msgspec.json.encode(result) + b"\n" for result in results))
    spent = time.perf_counter() - began
    gone.set()
    await asyncio.to_thread(made.stop)
    return spent, written
