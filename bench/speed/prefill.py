"""Prompts: whole sequences in one step, logits of their last tokens only; and the same through the whole engine."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from speed import targets
from speed.bench_device import BenchDevice
from speed.clock import Spread, device_s, interleaved, wait
from speed.decode import exact_costs
from speed.profile_rig import MeasuredModel, ProfileRig, forget, rigs
from speed.steady import prompt, prompts_s

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.gpu.graphs import Graphs
from rwkv_engine.gpu.sequence_rows import of_sequences
from rwkvctl.protocol.numerics import Numerics

CLASSES = ("M", "eager", "G", "E")
HOST = ("eager", "G")


def prefill(
    bench: BenchDevice, size: str, subject: MeasuredModel, shapes: Sequence[tuple[int, int]]
) -> Iterator[dict[str, object]]:
    """Yield a record for each shape (sequences, tokens) and profile, and one of the cost of exactness."""
    for sequences, tokens in shapes:
        forget()
        try:
            seconds = measure(bench, subject, rigs(subject, [sequences], sequences * tokens), sequences, tokens)
        except (OutOfMemory, torch.OutOfMemoryError) as error:
            yield {
                "kind": "prefill", "size": size, "batch": sequences, "tokens": tokens,
                "failed": f"out of memory: {error}",
            }  # fmt: skip
            continue
        for name in subject.models:
            mine = {of: seconds[f"{name} {of}"].of(sequences * tokens) for of in CLASSES}
            host = {of: seconds[f"{name} {of} host"] for of in HOST}
            yield record(bench, size, subject, name, (sequences, tokens), mine, host)
        models = {name: seconds[f"{name} M"] for name in subject.models}
        yield from exact_costs("prefill", size, sequences, tokens, models, bench)


def measure(
    bench: BenchDevice, subject: MeasuredModel, made: Mapping[Numerics, ProfileRig], sequences: int, tokens: int
) -> dict[str, Spread]:
    """Seconds of all prompts for every profile and class, all in turn: (M) replayed as a graph of just this shape,
    (eager) launched kernel by kernel, (G) as the engine feeds them, padded to a graph where it has one, (E) the engine
    from its empty slots to the first drawn token of each; of eager and G also the seconds until the host is free."""
    draw = random.Random(tokens)
    vocabulary = subject.compiler.tokenizer.size
    prompts = [prompt(draw, vocabulary, tokens) for _ in range(sequences)]
    contenders: dict[str, Callable[[], float]] = {}
    for name, rig in made.items():
        graph: Graphs[int] = Graphs(_step(rig, prompts), bench.device)
        with torch.inference_mode():
            graph.capture([sequences])
        contenders |= _contenders(bench.device, name, rig, subject, prompts, graph)
    return interleaved(contenders, bench.rounds)


def _contenders(
    device: torch.device,
    name: str,
    rig: ProfileRig,
    subject: MeasuredModel,
    prompts: Sequence[tuple[int, ...]],
    graph: Graphs[int],
) -> dict[str, Callable[[], float]]:
    count, runner = len(prompts), rig.runner
    sequences = list(enumerate(prompts))

    def fed(count: int) -> None:
        runner.prefill.feed(sequences)
        runner.model.logits(runner.pool.hidden[:count], runner.decode.logits[:count])

    @torch.inference_mode()
    def timed(run: Callable[[int], None]) -> float:
        return device_s(device, lambda: run(count), 1)

    @torch.inference_mode()
    def hosted(run: Callable[[int], None]) -> float:
        wait(device)
        began = time.perf_counter()
        run(count)
        spent = time.perf_counter() - began
        wait(device)
        return spent

    return {
        f"{name} M": lambda: timed(graph.run),
        f"{name} eager": lambda: timed(graph.body),
        f"{name} G": lambda: timed(fed),
        f"{name} eager host": lambda: hosted(graph.body),
        f"{name} G host": lambda: hosted(fed),
        f"{name} E": lambda: prompts_s(rig, subject.compiler, prompts),
    }


def _step(rig: ProfileRig, prompts: Sequence[tuple[int, ...]]) -> Callable[[int], None]:
    runner = rig.runner
    in_chunks = runner.model.in_chunks([*map(len, prompts)])
    rows, ids = of_sequences(list(enumerate(prompts)), runner.model.device, in_chunks=in_chunks)

    def step(count: int) -> None:
        runner.model.step(runner.pool, runner.prefill.space, rows, ids)
        runner.model.logits(runner.pool.hidden[:count], runner.decode.logits[:count])

    return step


def record(
    bench: BenchDevice,
    size: str,
    subject: MeasuredModel,
    name: Numerics,
    shape: tuple[int, int],
    speeds: Mapping[str, Spread],
    host: Mapping[str, Spread],
) -> dict[str, object]:
    """One line of the table."""
    sequences, tokens = shape
    model_s = sequences * tokens / speeds["M"].median
    shares = {roof.name: roof.prefill_s(subject.dims, sequences * tokens) / model_s for roof in bench.roofs}
    published = tokens == targets.PROMPT_TOKENS
    peer = targets.albatross(size, "prefill", sequences, bench.card) if published else None
    wanted = []
    if name == "fast" and published:
        wanted = targets.of_speed(
            size, "prefill", sequences, speeds["M"].median, shares[bench.roofs[0].name], bench.card
        )  # fmt: skip
    return {
        "kind": "prefill",
        "size": size,
        "numerics": name,
        "batch": sequences,
        "tokens": tokens,
        "tok_s": {of: found._asdict() for of, found in speeds.items()},
        "host_s": {of: found._asdict() for of, found in host.items()},
        "of_roof": shares,
        "albatross": {"tok_s": peer, "ratio": speeds["M"].median / peer} if peer else None,
        "targets": [target.as_json(measured=bench.measured) for target in wanted],
    }
