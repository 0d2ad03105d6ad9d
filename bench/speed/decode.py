"""Decode speed at each batch size: the model's graph (M), with the sampler (S), the whole engine (E), and the engine
with every answer streamed (E+)."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from speed import targets
from speed.bench_device import BenchDevice
from speed.clock import Spread, device_s, interleaved
from speed.profile_rig import MeasuredModel, ProfileRig
from speed.steady import LEAD, BusyEngine, Readers

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.gpu.assemble import types_of
from rwkvctl.protocol.numerics import Numerics

WINDOW_S = 0.08  # the least duration of a contender's turn
STEPS = (3, 64)
PROMPT_TOKENS = 4
CLASSES = ("M", "S", "E", "E+")


def decode(
    bench: BenchDevice, size: str, subject: MeasuredModel, made: Mapping[Numerics, ProfileRig], batches: Sequence[int]
) -> Iterator[dict[str, object]]:
    """Yield a record for each batch and profile, and one of the cost of exactness."""
    for batch in batches:
        try:
            speeds = measure(bench, subject, made, batch)
        except (OutOfMemory, torch.OutOfMemoryError) as error:
            yield {"kind": "decode", "size": size, "batch": batch, "failed": f"out of memory: {error}"}
            continue
        for name in made:
            mine = {of: speeds[f"{name} {of}"].of(batch) for of in CLASSES}
            yield record(bench, size, subject, name, batch, mine)
        yield from exact_costs("decode", size, batch, 1, {name: speeds[f"{name} M"] for name in made}, bench)


def measure(
    bench: BenchDevice, subject: MeasuredModel, made: Mapping[Numerics, ProfileRig], batch: int
) -> dict[str, Spread]:
    """Return the seconds of a step for every profile and class, measured in turn."""
    contenders: dict[str, Callable[[], float]] = {}
    with contextlib.ExitStack() as open_readers:
        for name, rig in made.items():
            steps = _steps(bench.device, rig, batch)
            tokens = (2 * (steps + LEAD) + 2) * (bench.rounds + 2)
            engine = BusyEngine.of(rig, subject.compiler, batch, PROMPT_TOKENS, tokens)
            reading = open_readers.enter_context(Readers(engine))
            contenders |= _contenders(bench.device, name, rig, engine, reading, steps)
        return interleaved(contenders, bench.rounds)


def _steps(device: torch.device, rig: ProfileRig, batch: int) -> int:
    """Return how many steps make a turn."""
    fewest, most = STEPS if device.type == "cuda" else (1, 1)
    once = device_s(device, lambda: rig.bare.run(batch), 1)
    return max(fewest, min(most, math.ceil(WINDOW_S / once)))


def _contenders(
    device: torch.device, name: str, rig: ProfileRig, engine: BusyEngine, reading: Readers, steps: int
) -> dict[str, Callable[[], float]]:
    batch, decode = engine.batch, rig.runner.decode

    @torch.inference_mode()
    def replays(run: Callable[[int], None]) -> float:
        decode.draws.ledger_used.zero_()  # else penalties would include more tokens than any answer has
        return device_s(device, lambda: run(batch), steps)

    def streamed() -> float:
        reading.attend(attending=True)
        try:
            return engine.step_s(steps)
        finally:
            reading.attend(attending=False)
            reading.settle()

    return {
        f"{name} M": lambda: replays(rig.bare.run),
        f"{name} S": lambda: replays(decode.graphs.run),
        f"{name} E": lambda: engine.step_s(steps),
        f"{name} E+": streamed,
    }


def record(
    bench: BenchDevice, size: str, subject: MeasuredModel, name: Numerics, batch: int, speeds: Mapping[str, Spread]
) -> dict[str, object]:
    """Return one record of the table."""
    model_s = batch / speeds["M"].median
    state_item = types_of(name)[1].itemsize
    shares = {roof.name: roof.decode_s(subject.dims, batch, state_item) / model_s for roof in bench.roofs}
    engine_share = speeds["E"].median / speeds["M"].median
    peer = targets.albatross(size, "decode", batch, bench.card)
    wanted = targets.of_engine(batch, engine_share)
    if name == "fast":
        wanted += targets.of_speed(
            size, "decode", batch, speeds["M"].median, shares[bench.roofs[0].name], bench.card
        )  # fmt: skip
    return {
        "kind": "decode",
        "size": size,
        "numerics": name,
        "batch": batch,
        "tokens": 1,
        "tok_s": {of: found._asdict() for of, found in speeds.items()},
        "of_roof": shares,
        "engine_share": engine_share,
        "albatross": {"tok_s": peer, "ratio": speeds["M"].median / peer} if peer else None,
        "targets": [target.as_json(measured=bench.measured) for target in wanted],
    }


def exact_costs(
    kind: str, size: str, batch: int, tokens: int, seconds: Mapping[Numerics, Spread], bench: BenchDevice
) -> Iterator[dict[str, object]]:
    """Yield the time of an exact profile relative to the fast one, where both were measured."""
    pairs: tuple[tuple[Numerics, Numerics], ...] = (("fast", "exact"), ("fast-fp16-state", "exact-fp16-state"))
    for fast, exact in pairs:
        if fast in seconds and exact in seconds:
            cost = seconds[exact].median / seconds[fast].median - 1
            target = targets.of_exact(kind, cost).as_json(measured=bench.measured)
            yield {
                "kind": f"{kind} exact cost",
                "size": size,
                "batch": batch,
                "tokens": tokens,
                "profile": exact,
                "targets": [target],
            }
