"""A loaded model run on a list of items in one setting, without a thread or a server around it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

from rwkv_engine.build import EngineParts
from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.runner import Runner
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler
from rwkv_engine.scheduling.tasks import AnyTask, Result, Sink
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkvctl.protocol.engine import GenerateItem, ScoreItem

if TYPE_CHECKING:
    from rwkv_engine.gpu.model import GpuModel

Item = GenerateItem | ScoreItem
CACHE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class TrialSetting:
    """The configuration of a trial. `engines`: the items are divided among so many. `graphs` matter on a GPU only."""

    batch: int = 1
    prefill_tokens: int = 64
    cached: bool = False
    graphs: bool = True
    engines: int = 1
    backwards: bool = False

    def __str__(self) -> str:
        words = [f"batch {self.batch}", f"chunks of {self.prefill_tokens}", "cache" if self.cached else "no cache"]
        words += ["backwards"] * self.backwards + [f"{self.engines} engines"] * (self.engines > 1)
        return ", ".join(words + ["no graphs"] * (not self.graphs))

    @property
    def limits(self) -> Limits:
        return Limits(self.batch, self.prefill_tokens, cache_bytes=CACHE_BYTES if self.cached else 0)


EngineFactory = Callable[[TrialSetting], EngineParts]


def on_cpu(model: Model) -> EngineFactory:
    """Return a function that makes CPU engines of this model in any setting."""

    def engine_parts(setting: TrialSetting) -> EngineParts:
        pool = StatePool.allocate(model.dims, setting.batch)
        return EngineParts(Runner(model, pool), pool, setting.limits)

    return engine_parts


class TrialResult(NamedTuple):
    """Answers in any order, and the largest number of sequences in one step."""

    answers: list[Result]
    peak: int


def run(loaded: EngineFactory, compiler: Compiler, setting: TrialSetting, items: Sequence[Item]) -> TrialResult:
    """Run all items to their ends and return their results and the largest number of sequences in a step."""
    answers: list[Result] = []
    tasks = [compiled(compiler, item, answers.append) for item in items]
    return TrialResult(answers, run_tasks(loaded, setting, tasks))


def compiled(compiler: Compiler, item: Item, sink: Sink) -> AnyTask:
    """Return the task of an item, to generate or to score."""
    return compiler.generate(item, sink) if isinstance(item, GenerateItem) else compiler.score(item, sink)


def run_tasks(loaded: EngineFactory, setting: TrialSetting, tasks: Sequence[AnyTask]) -> int:
    """Run tasks to their ends, divided among the setting's engines. Returns the largest number of sequences in a
    step."""
    peak = 0
    for number in range(setting.engines):
        engine_parts = loaded(setting)
        scheduler = Scheduler(engine_parts.limits, engine_parts.states, time.monotonic)
        engine = Engine(scheduler, engine_parts.runner, len(tasks), Liveness(None))
        for task in tasks[number :: setting.engines]:
            scheduler.submit(task)
        while not scheduler.idle:
            engine.step()
            peak = max(peak, round(engine.occupancy * setting.batch))
    return peak


def on_gpu(model: "GpuModel") -> EngineFactory:
    """Return a function that makes GPU engines of this model in any setting."""
    from rwkv_engine.gpu.assemble import fill
    from rwkv_engine.gpu.memory_plan import MemoryPlan

    def engine_parts(setting: TrialSetting) -> EngineParts:
        plan = MemoryPlan(setting.batch, setting.prefill_tokens, 0, 0, 0, CACHE_BYTES * 3 * setting.cached)
        torch.cuda.empty_cache()
        made = fill(model, plan, graphs=setting.graphs)
        return EngineParts(made.runner, made.runner.pool, made.limits)

    return engine_parts
