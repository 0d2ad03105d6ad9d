"""What filling free slots together gives, by a model: the engine's scheduler on a device that is only counted.

    python bench/filled_slots.py [SLOTS]

A step lasts as long as the slower of device and host. The constants are 1.5B in `fast` on an H200
(bench/results/2026-11-26-h200-third.txt): decode of 512 rows in 7.0 ms; prompts in 1.7 ms and 5 us a token; 1.5 ms of
the host for a step with prompts that has a graph, 13 ms for one launched kernel by kernel. 4 ms of the host for the
outcomes of 512 rows is an estimate. Prompts of 64 tokens, answers of 128 to 384, 6 for each slot. Nothing is measured:
`bench/gpu.sh 1.5B engine` measures `serving`.
"""

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from figures import header

from rwkv_engine.gpu.prefill_shapes import ROWS
from rwkv_engine.scheduling import scheduler
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler, SlotInput, SlotOutput
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_engine.tokenizer import for_vocabulary
from rwkvctl.protocol.engine import GenerateItem, Sampling, Stops

PROMPT, ANSWER, WAVES = 64, (128, 384), 6
TOKEN = 98  # every draw; no stop


class NoStates:
    """Stands for the pool of states: slots can be saved, loaded and spilled, and nothing is kept."""

    size_bytes = 1

    def clear(self, slot: int) -> None: ...

    def save(self, slot: int) -> None: ...

    def load(self, slot: int, payload: object) -> None: ...

    def spill(self, payload: object) -> object:
        return payload


@dataclass(slots=True)
class Counted:
    """A runner that computes nothing and adds up the seconds of its steps, apart while tasks wait for slots."""

    scheduler: Scheduler
    lag: int = 1
    full_s: float = 0.0
    full_tokens: int = 0
    steps: int = 0
    with_prompts: int = 0
    outputs: list[SlotOutput] = field(default_factory=list)

    def launch(self, inputs: Sequence[SlotInput]) -> "Counted":
        decoded, fed = sum(entry.decode for entry in inputs), sum(len(entry.tokens) for entry in inputs)
        device_s = 3.6e-3 + 3.4e-3 * decoded / 512 + (1.7e-3 + fed / 200_000 if fed else 0)
        host_s = 0.5e-3 + 4e-3 * decoded / 512 + (0 if not fed else 1.5e-3 if fed <= max(ROWS) else 13e-3)
        self.steps += 1
        self.with_prompts += fed > 0
        if self.scheduler.waiting and decoded:
            self.full_s += max(device_s, host_s)
            self.full_tokens += decoded
        return Counted(self.scheduler, outputs=[SlotOutput((), TOKEN if entry.draw else None) for entry in inputs])

    def collect(self) -> list[SlotOutput]:
        return self.outputs


def run(slots: int, share: float) -> str:
    """Return a line for one rule: free slots are filled from this share of all on."""
    scheduler.SLOTS_FILLED_TOGETHER = share
    plan = Scheduler(Limits(slots, 8192, cache_bytes=0, kept_bytes=0), NoStates(), time.monotonic)
    runner, compiler, draw = Counted(plan), Compiler(for_vocabulary(257)), random.Random(5)
    engine, answers = Engine(plan, runner, 1 << 20, Liveness(None)), list[object]()
    for number in range(WAVES * slots):
        item = GenerateItem(
            id=str(number), ids=tuple(draw.randrange(1, 256) for _ in range(PROMPT)), stops=Stops(end_of_text=False),
            sampling=Sampling(max_tokens=draw.randrange(*ANSWER)),
        )  # fmt: skip
        plan.submit(compiler.generate(item, answers.append))
    while not plan.idle:
        engine.step()
    assert len(answers) == WAVES * slots
    speed = runner.full_tokens / runner.full_s
    return f"{speed:12,.0f} tokens/s while tasks wait   {runner.with_prompts:5} of {runner.steps:5} steps with prompts"


if __name__ == "__main__":
    header()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    for least in (0, 128, 64, 32, 16):
        name = f"from 1 in {least}" if least else "at once"
        print(f"{count} slots, filled {name:13}", run(count, 1 / least if least else 0.0), flush=True)
