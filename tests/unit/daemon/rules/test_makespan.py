"""Whole nodes in simulated time: placement's own commands are carried out, and the work takes what it is said to take.

The engines of a kind share what its running jobs have left, as the runners' pools do."""

import heapq
import itertools
import random
from dataclasses import dataclass, field, replace

import pytest

from rwkv_daemon.rules.memory_fit import FreeLease
from rwkv_daemon.rules.placement import (
    Command,
    EngineFact,
    EngineKind,
    NodeResources,
    StartEngine,
    StartJob,
    UnloadEngine,
    WaitingJob,
    place,
)
from rwkv_daemon.rules.scale_out import Outlook

STEP_S = 5.0


@dataclass
class Simulation:
    """A node of `gpus`, one job list, and a clock that moves in steps."""

    jobs: dict[int, tuple[EngineKind, float]]
    gpus: int
    load_s: float
    known: bool = True
    measured_after_s: float = 60.0
    clock_s: float = 0.0
    left: dict[int, float] = field(default_factory=dict)
    running: dict[int, int] = field(default_factory=dict)
    engines: dict[int, EngineFact] = field(default_factory=dict)
    ready_at: dict[int, float] = field(default_factory=dict)
    loads: list[tuple[EngineKind, str]] = field(default_factory=list)
    idle_gpu_s: float = 0.0

    def __post_init__(self) -> None:
        self.left = {number: work for number, (_, work) in self.jobs.items()}

    def run(self) -> float:
        """Until all is done; returns the time it took."""
        while self.left:
            for command in place(self.waiting(), self.node()):
                self.perform(command)
            self.advance()
            assert self.clock_s < 10 * sum(work for _, work in self.jobs.values()) + 1000, "nothing moves"
        return self.clock_s

    def waiting(self) -> list[WaitingJob]:
        return [
            WaitingJob(number, kind, work_s=work if self.known else None)
            for number, (kind, work) in self.jobs.items()
            if number in self.left and number not in self.running
        ]

    def node(self) -> NodeResources:
        taken = {engine.lease for engine in self.engines.values()}
        outlook: dict[EngineKind, Outlook] = {}
        for kind in {kind for kind, _ in self.jobs.values()}:
            mine = [number for number in self.left if self.jobs[number][0] == kind]
            running = sum(number in self.running for number in mine)
            told = [self.left[number] for number in mine if self.is_measured(number)]
            work = sum(told) if told else None
            if mine:
                outlook[kind] = Outlook(work_s=work, samples=10**6, running=running, load_s=self.load_s)
        return NodeResources(
            engines=tuple(self.engines.values()),
            free=tuple(FreeLease(name) for name in (f"g{n}" for n in range(self.gpus)) if name not in taken),
            runners_per_engine=4,
            idle_unload_s=600.0,
            outlook=outlook,
        )

    def is_measured(self, number: int) -> bool:
        """Known from the start; or, once it has run for a while, from its own pace."""
        return self.known or self.jobs[number][1] - self.left[number] >= self.measured_after_s

    def perform(self, command: Command) -> None:
        match command:
            case StartJob(job, engine):
                self.running[job] = engine
            case StartEngine(kind, lease, _, _):
                number = len(self.loads) + 1
                self.loads.append((kind, lease))
                self.engines[number] = EngineFact(number, kind, lease, "loading", 0)
                self.ready_at[number] = self.clock_s + self.load_s
            case UnloadEngine(number, _):
                del self.engines[number]

    def advance(self) -> None:
        """One step: engines load, jobs share the engines of their kind."""
        self.clock_s += STEP_S
        for number, engine in self.engines.items():
            if engine.state == "loading" and self.ready_at[number] <= self.clock_s:
                self.engines[number] = replace(engine, state="ready")
        for kind in {engine.serves for engine in self.engines.values()}:
            ready = [e for e in self.engines.values() if e.serves == kind and e.state == "ready"]
            mine = [number for number in self.running if self.jobs[number][0] == kind]
            self.work(mine, STEP_S * len(ready))
        for number, engine in self.engines.items():
            jobs = sum(e == number for e in self.running.values())
            idle_s = 0.0 if jobs else engine.idle_s + STEP_S
            helps = engine.state == "ready" and any(self.jobs[n][0] == engine.serves for n in self.running)
            self.engines[number] = replace(engine, jobs=jobs, idle_s=idle_s, helps=helps)
        busy = {self.jobs[number][0] for number in self.running}
        self.idle_gpu_s += STEP_S * (self.gpus - sum(e.serves in busy for e in self.engines.values()))

    def work(self, mine: list[int], seconds: float) -> None:
        """Hand out engine time evenly; what one job does not need goes to the others."""
        for place_in_line, number in enumerate(sorted(mine, key=lambda number: self.left[number])):
            used = min(self.left[number], seconds / (len(mine) - place_in_line))
            seconds -= used
            self.left[number] -= used
            if self.left[number] <= 1e-9:
                del self.left[number], self.running[number]


def lpt(work: list[float], machines: int) -> float:
    """The makespan of the longest-processing-time rule: each job whole on the machine that is free first."""
    free = [0.0] * machines
    for job in sorted(work, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + job)
    return max(free)


def jobs_of(models: int, count: int, seed: int) -> dict[int, tuple[EngineKind, float]]:
    """Jobs of very unlike lengths, dealt out to models."""
    chance = random.Random(seed)
    kinds = itertools.cycle([EngineKind(f"model-{n}", "fast") for n in range(models)])
    return {number: (next(kinds), float(chance.choice([60, 120, 300, 900, 2400]))) for number in range(1, count + 1)}


@pytest.mark.parametrize("models", [1, 3, 5, 10])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thirty_jobs_on_eight_gpus_end_within_a_tenth_of_the_longest_first_bound(models: int, seed: int) -> None:
    jobs = jobs_of(models, 30, seed)
    simulation = Simulation(jobs, gpus=8, load_s=10.0)
    took_s = simulation.run()
    assert took_s <= 1.1 * lpt([work for _, work in jobs.values()], 8)


@pytest.mark.parametrize("models", [1, 3, 10])
def test_work_that_is_measured_only_while_it_runs_ends_as_soon(models: int) -> None:
    jobs = jobs_of(models, 30, 1)
    took_s = Simulation(jobs, gpus=8, load_s=10.0, known=False).run()
    assert took_s <= 1.1 * lpt([work for _, work in jobs.values()], 8)


def test_a_suite_of_one_checkpoint_loads_its_weights_once_a_gpu() -> None:
    kind = EngineKind("model", "fast")
    simulation = Simulation(dict.fromkeys(range(1, 6), (kind, 300.0)), gpus=8, load_s=10.0)
    simulation.run()
    assert len(simulation.loads) == len(set(simulation.loads)) <= 8


def test_one_long_job_uses_every_gpu() -> None:
    simulation = Simulation({1: (EngineKind("model", "fast"), 8000.0)}, gpus=8, load_s=10.0)
    assert simulation.run() <= 1.1 * (8000.0 / 8 + 10.0)
