"""Decode speed of the engine on one CPU thread against the PyPI package `rwkv`, and what `fp32` costs over `fast`.

    python bench/engine_tokens.py [--small] [--tokens N] [--rounds N]

Class (E) of reference/rwkv7-engine.md 9.1: our figures include scheduler, head, greedy draw, stop rules and answers;
the peer's are its forward pass and an argmax. Same random checkpoint (0.1B shape; --small: 4 layers of 256), same
process, same thread count; rounds are interleaved and medians are printed with the spread.
"""

import argparse
import contextlib
import datetime as dt
import io
import os
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

os.environ.update(RWKV_V7_ON="1", RWKV_JIT_ON="1", RWKV_CUDA_ON="0")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.runner import Runner
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_weights.formats import load, synthetic
from rwkvctl.protocol.engine import GenerateItem, Sampling, Stops

PROMPT = "The quick brown fox jumps over the lazy dog."
PREFILL_TOKENS = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a model of 4 layers of width 256")
    parser.add_argument("--tokens", type=int, default=24, help="tokens a sample and round")
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    shape = synthetic.dims_of(4, 256) if flags.small else synthetic.dims_of(12, 768)
    with tempfile.TemporaryDirectory() as folder:
        path = synthetic.write(Path(folder) / "bench.pth", shape)
        header(shape)
        report(run(contenders(path, flags.tokens), flags.rounds))


def header(shape: object) -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), "?")
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    names = ("rwkv", "numpy", "pyrwkv-tokenizer", "rwkvctl")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    print(f"{now}  {cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, 1 thread, Linux {platform.release()}")
    print(f"python {platform.python_version()}, torch {torch.__version__}, {versions}")
    print(f"random checkpoint {shape}, fp32 arithmetic on both sides\n")


def contenders(path: Path, tokens: int) -> dict[str, Callable[[], float]]:
    """Return the contenders, each a function that returns the tokens per second of one round."""
    peer, found = peer_model(path), load.load(path)
    tokenizer = for_vocabulary(found.dims.vocabulary)
    ids = [0, *tokenizer.encode(PROMPT)]
    long = [(i * 1103515245 + 12345) % 65529 + 1 for i in range(PREFILL_TOKENS)]
    table: dict[str, Callable[[], float]] = {"rwkv B1 decode": lambda: peer_decode(peer, ids, tokens)}
    table["rwkv prefill"] = lambda: peer_prefill(peer, long)
    for numerics in ("fast", "fp32"):
        model = Model.of(found, numerics)
        for batch in (1, 16, 32):
            table[f"{numerics} B{batch} decode"] = lambda m=model, b=batch: our_decode(m, tokenizer, b, tokens)
        table[f"{numerics} prefill"] = lambda m=model: our_prefill(m, tokenizer, long)
    return table


def run(table: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run one warm-up round, then every contender in turn, `rounds` times."""
    speeds: dict[str, list[float]] = {name: [] for name in table}
    for number in range(rounds + 1):
        for name, contender in table.items():
            speed = contender()
            if number:
                speeds[name].append(speed)
    return speeds


def report(speeds: dict[str, list[float]]) -> None:
    middle = {name: statistics.median(values) for name, values in speeds.items()}
    print(f"{'':18} {'tokens/s':>9}  lowest .. highest")
    for name, values in speeds.items():
        print(f"{name:18} {middle[name]:9.1f}  {min(values):.1f} .. {max(values):.1f}")
    peer = middle["rwkv B1 decode"]
    print("\nratios of medians")
    for numerics in ("fast", "fp32"):
        ones, many = middle[f"{numerics} B1 decode"] / peer, middle[f"{numerics} B16 decode"] / peer
        prefill = middle[f"{numerics} prefill"] / middle["rwkv prefill"]
        print(f"  {numerics} / rwkv (batch 1): B1 {ones:.2f}x, B16 {many:.2f}x, prefill {prefill:.2f}x")
    costs = [f"{n} {middle[f'fast {n}'] / middle[f'fp32 {n}']:.2f}x" for n in ("B1 decode", "B16 decode", "prefill")]
    print(f"  fp32 takes, of the time of fast: {', '.join(costs)}")


def peer_model(path: Path):
    """Return the package's model; its output is discarded."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from rwkv.model import RWKV

        return RWKV(model=str(path.with_suffix("")), strategy="cpu fp32")


def peer_decode(peer, ids: list[int], tokens: int) -> float:
    logits, state = peer.forward(ids, None)
    began = time.perf_counter()
    for _ in range(tokens):
        logits, state = peer.forward([int(logits.argmax())], state)
    return tokens / (time.perf_counter() - began)


def peer_prefill(peer, ids: list[int]) -> float:
    began = time.perf_counter()
    peer.forward(ids, None)
    return len(ids) / (time.perf_counter() - began)


def our_decode(model: Model, tokenizer, batch: int, tokens: int) -> float:
    """Return the tokens per second of `batch` samples of one prompt, without the first token, which ends the
    prefill."""
    answers: list[object] = []
    sampling = Sampling(max_tokens=tokens + 1)
    items = [
        GenerateItem(id=str(i), text=PROMPT, sampling=sampling, stops=Stops(end_of_text=False)) for i in range(batch)
    ]
    made = engine(model, batch)
    for item in items:
        made.scheduler.submit(Compiler(tokenizer).generate(item, answers.append))
    made.step()
    began = time.perf_counter()
    while not made.scheduler.idle:
        made.step()
    span = time.perf_counter() - began
    assert len(answers) == batch
    return batch * tokens / span


def our_prefill(model: Model, tokenizer, ids: list[int]) -> float:
    made = engine(model, 1)
    item = GenerateItem(id="x", ids=tuple(ids), sampling=Sampling(max_tokens=1))
    made.scheduler.submit(Compiler(tokenizer).generate(item, lambda _: None))
    began = time.perf_counter()
    while not made.scheduler.idle:
        made.step()
    return len(ids) / (time.perf_counter() - began)


def engine(model: Model, slots: int) -> Engine:
    """Return an engine as it is served, but without its thread."""
    pool = StatePool.allocate(model.dims, slots)
    scheduler = Scheduler(Limits(slots, prefill_tokens=4096), pool, time.monotonic)
    return Engine(scheduler, Runner(model, pool), 1 << 20, Liveness(None))


if __name__ == "__main__":
    main()
