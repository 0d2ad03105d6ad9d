"""The gain of saved states: few-shot multiple choice with and without the prefix cache, second stages with and without
the first stage's kept state.

    python bench/prefix_cache.py [--tiny] [--numerics NAME] [--rows N] [--rounds N] [--slots N]

Class (W) of reference/rwkv7-engine.md 9.1, on one CPU thread: the whole engine in this process, random 0.1B checkpoint.
Multiple choice has MMLU's lengths: five shots of about 90 tokens that all rows share, a question of 40 to 120, four
choices of one token. The second stages go on from 48 generated tokens after prompts of 400, with a tail of ten; sent
again as ids, the whole of it is fed once more. Contenders take turns; medians are printed with the lowest and highest.
"""

import argparse
import datetime as dt
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from rwkv_engine.build import limits_for
from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.runner import Runner
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_engine.verify.trial import Item, compiled
from rwkv_weights.formats import synthetic
from rwkv_weights.formats.schema import Dims
from rwkvctl.protocol.engine import Continue, Generated, GenerateItem, Sampling, Scored, ScoreItem, Stops
from rwkvctl.protocol.numerics import NUMERICS, PROFILES

TARGET = 4.0
CHOICES = (" A", " B", " C", " D")
OPEN = Stops(end_of_text=False)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths in tokens; `rows` is a count."""

    rows: int = 60
    shot: int = 90
    question: tuple[int, int] = (40, 120)
    first_stages: int = 8
    prompt: int = 400
    reasoned: int = 48


TINY = Lengths(rows=6, shot=8, question=(4, 12), first_stages=2, prompt=40, reasoned=4)


@dataclass(frozen=True, slots=True)
class Bench:
    """A model and its engines' limits. `exact`: its profile promises the same bits with and without a cache."""

    model: Model
    compiler: Compiler
    limits: Limits
    exact: bool

    def engine(self, *, cached: bool) -> Engine:
        limits = self.limits if cached else replace(self.limits, cache_bytes=0)
        pool = StatePool.allocate(self.model.dims, limits.slots)
        return Engine(Scheduler(limits, pool, time.monotonic), Runner(self.model, pool), 1 << 20, Liveness(None))

    def answer(self, engine: Engine, items: Sequence[Item]) -> tuple[float, list[Generated | Scored]]:
        """Return (seconds, answers in any order) of all items at once."""
        answers: list[Generated | Scored] = []
        tasks = [compiled(self.compiler, item, answers.append) for item in items]
        began = time.perf_counter()
        for task in tasks:
            engine.scheduler.submit(task)
        while not engine.scheduler.idle:
            engine.step()
        spent = time.perf_counter() - began
        if bad := [answer.error for answer in answers if answer.error]:
            raise RuntimeError(bad[0])
        return spent, answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a model of 2 layers of 128 and few rows: a dry run")
    parser.add_argument("--numerics", choices=NUMERICS, default="fp32")
    parser.add_argument("--rows", type=int, help="questions (default: 60)")
    parser.add_argument("--rounds", type=int, help="(default: 3)")
    parser.add_argument("--slots", type=int, default=0, help="sequences at once (default: what the engine chooses)")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    lengths = TINY if flags.tiny else Lengths()
    lengths = replace(lengths, rows=flags.rows or lengths.rows)
    dims = synthetic.dims_of(2, 128) if flags.tiny else synthetic.dims_of(12, 768)
    model = Model.of(synthetic.drawn_on("cpu", dims), flags.numerics)
    limits = limits_for(dims, flags.slots)
    bench = Bench(model, Compiler(for_vocabulary(dims.vocabulary)), limits, PROFILES[flags.numerics].exact)
    header(dims, flags.numerics, limits)
    rounds = flags.rounds or (1 if flags.tiny else 3)
    few_shot(bench, lengths, rounds)
    two_stages(bench, lengths, rounds)


def header(dims: Dims, numerics: str, limits: Limits) -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), "?")
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "pyrwkv-tokenizer", "rwkvctl"))
    print(f"{now}  {cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, 1 thread, Linux {platform.release()}")
    print(f"python {platform.python_version()}, torch {torch.__version__}, {versions}")
    print(f"random checkpoint of {dims.layers} layers of {dims.width}, {numerics}; {limits.slots} slots, "
          f"{limits.prefill_tokens} prompt tokens a step")  # fmt: skip


def few_shot(bench: Bench, lengths: Lengths, rounds: int) -> None:
    """Measure all rows of a benchmark, with few-shot examples before each question."""
    draw, vocabulary = random.Random(3), bench.compiler.tokenizer.size
    shots = ids(draw, vocabulary, 5 * lengths.shot)
    questions = [ids(draw, vocabulary, draw.randint(*lengths.question)) for _ in range(lengths.rows)]
    items = [
        ScoreItem(id=str(row), group="mmlu", context_ids=shots + question, continuations=CHOICES)
        for row, question in enumerate(questions)
    ]
    told: dict[str, str] = {}
    scores: dict[str, object] = {}

    def run(name: str, *, cached: bool) -> float:
        engine = bench.engine(cached=cached)
        spent, answers = bench.answer(engine, items)
        cache = engine.scheduler.cache
        saved = f"{cache.hits} hits, {cache.saved_tokens:,} tokens saved"
        told[name] = f"{saved}, {engine.scheduler.counters.prefill_tokens:,} fed"
        found = {answer.id: answer.scores for answer in answers if isinstance(answer, Scored)}
        if bench.exact and found != scores.setdefault("first", found):
            raise RuntimeError("the cache changed a score")
        return spent

    times = interleaved(
        {"without": lambda: run("without", cached=False), "with": lambda: run("with", cached=True)}, rounds
    )
    asked = sum(len(shots) + len(question) + 1 for question in questions)
    print(f"\nfew-shot multiple choice: {lengths.rows} rows, {len(shots)} tokens shared, {asked:,} in all")
    for name, values in times.items():
        line(f"{name} the cache", values, f"{lengths.rows / statistics.median(values):.2f} rows/s, {told[name]}")
    ratio = statistics.median(times["without"]) / statistics.median(times["with"])
    print(f"  {ratio:.2f}x as fast with it; at least {TARGET:g}x: {'met' if ratio >= TARGET else 'MISSED'}")


def two_stages(bench: Bench, lengths: Lengths, rounds: int) -> None:
    """Measure second stages that continue answers: from the kept state, or with all ids sent again."""
    draw, vocabulary = random.Random(4), bench.compiler.tokenizer.size
    prompts = [ids(draw, vocabulary, lengths.prompt) for _ in range(lengths.first_stages)]
    tail = "\nTherefore, the answer is"
    engine = bench.engine(cached=False)
    reasoned = Sampling(max_tokens=lengths.reasoned)
    first = [
        GenerateItem(id=str(place), ids=prompt, sampling=reasoned, stops=OPEN, keep=True)
        for place, prompt in enumerate(prompts)
    ]
    spent_s, answers = bench.answer(engine, first)
    stages = {answer.id: answer for answer in answers if isinstance(answer, Generated)}
    ending = Sampling(max_tokens=1)
    kept: list[Item] = [
        GenerateItem(id=f"k{name}", continue_from=Continue(id=name, tail=tail), sampling=ending, stops=OPEN)
        for name in stages
    ]
    again: list[Item] = [
        GenerateItem(id=f"a{name}", ids=stage.prompt_ids + stage.ids, tail=tail, sampling=ending, stops=OPEN)
        for name, stage in stages.items()
    ]
    fed: dict[str, int] = {}

    def run(name: str, items: Sequence[Item]) -> float:
        before = engine.scheduler.counters.prefill_tokens
        spent, _ = bench.answer(engine, items)
        fed[name] = engine.scheduler.counters.prefill_tokens - before
        return spent

    times = interleaved({"kept": lambda: run("kept", kept), "sent again": lambda: run("sent again", again)}, rounds)
    print(f"\nsecond stages: {len(first)} samples of {lengths.reasoned} tokens after {lengths.prompt} "
          f"(first stage: {spent_s:.2f} s)")  # fmt: skip
    for name, values in times.items():
        line(name, values, f"{fed[name]:,} tokens fed")
    print(
        f"  {statistics.median(times['sent again']) / statistics.median(times['kept']):.2f}x as fast from kept states"
    )


def interleaved(contenders: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run every contender in turn, `rounds` times."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            times[name].append(contender())
    return times


def line(name: str, values: Sequence[float], told: str) -> None:
    print(f"  {name:18} {statistics.median(values):8.2f} s  ({min(values):.2f} .. {max(values):.2f})  {told}")


def ids(draw: random.Random, vocabulary: int, length: int) -> tuple[int, ...]:
    """Draw random token ids, neither 0 nor beyond the tokens of the World vocabulary."""
    return tuple(draw.randrange(1, min(vocabulary, 65530)) for _ in range(length))


if __name__ == "__main__":
    main()
