# ruff: noqa: INP001
"""Time kernels on a GPU and set them against what the same GPU does in the same run.

A time is the median of CUDA-event timings of one launch, replayed from a graph, with the second-level cache cleared
before each. A case that disagrees with its reference is reported and not timed.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

WARM_UP = 3
SCRUB_BYTES = 256 << 20  # several times the second-level cache, and long enough for the host to be ahead
H200 = (4.3e12, 790e12)  # bytes and 16-bit FLOP a second, measured on one

DECODE = (1, 8, 32, 128, 512, 1024)
PREFILL = ((1, 1024), (8, 1024), (32, 1024))
WIDTHS = (768, 2048, 4096)


@dataclass(frozen=True, slots=True)
class BenchCase:
    """One launch at one shape. `bytes`, `flop`: the least that must be moved and computed. `error`: runs the kernel and
    its reference and returns the relative distance; None where the reference would take too long.
    """

    name: str
    launch: Callable[[], None]
    error: Callable[[], float] | None
    tolerance: float
    bytes: int
    flop: int = 0


def main(kernel: str, cases: Callable[[], Iterator[BenchCase]]) -> int:
    """Run every case; print a table; exit code 1 if a case disagrees with its reference."""
    parser = argparse.ArgumentParser(description=f"Time {kernel} on this machine's GPU.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    parser.add_argument("--only", default="", metavar="WORDS", help="only cases whose name contains this")
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.stdout.write("This benchmark needs a GPU, and torch finds none here.\n")
        return 0
    bandwidth, rate = roof()
    report = {
        "kernel": kernel,
        "repeats": arguments.repeats,
        **machine(),
        "copy_bytes_s": bandwidth,
        "matmul_flop_s": rate,
    }
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in report.items()))
    sys.stdout.write(f"an H200 of reference: {H200[0]:.3g} bytes/s, {H200[1]:.3g} FLOP/s\n\n")
    results = []
    for case in cases():
        if arguments.only in case.name:
            result = measure(case, arguments.repeats, bandwidth, rate)
            sys.stdout.write(line(result) + "\n")
            sys.stdout.flush()
            results.append(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(report | {"cases": results}, indent=1) + "\n")
    return 1 if any("microseconds" not in result for result in results) else 0


def measure(case: BenchCase, repeats: int, bandwidth: float, rate: float) -> dict[str, Any]:
    """Return the result of one case: its error and, if that is within tolerance, its times and how they compare with
    the GPU's copy bandwidth and matmul rate."""
    error = case.error() if case.error else None
    result: dict[str, Any] = {"case": case.name, "error": error, "tolerance": case.tolerance}
    if error is not None and not error <= case.tolerance:
        return result
    times = timings(case.launch, repeats)
    middle = statistics.median(times)
    tenth = len(times) // 10
    result |= {
        "microseconds": middle,
        "from_to": [sorted(times)[tenth], sorted(times)[-1 - tenth]],
        "bytes": case.bytes,
        "of_copy": case.bytes / bandwidth / (middle * 1e-6),
    }
    if case.flop:
        result |= {"flop": case.flop, "of_matmul": case.flop / rate / (middle * 1e-6)}
    return result


def timings(launch: Callable[[], None], repeats: int) -> list[float]:
    """Return the time of each of `repeats` launches, in microseconds."""
    for _ in range(WARM_UP):
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    scrub = torch.empty(SCRUB_BYTES, dtype=torch.int8, device="cuda")
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in events:
        scrub.zero_()
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return [1000 * start.elapsed_time(end) for start, end in events]


def roof() -> tuple[float, float]:
    """Return what this GPU reaches: bytes a second of a copy (read and written), FLOP a second of an fp16 product."""
    size = 8192
    x, y, z = (torch.empty(size, size, dtype=torch.float16, device="cuda").normal_() for _ in range(3))

    def product() -> None:
        torch.mm(x, y, out=z)

    def copy() -> None:
        torch.neg(source, out=target)  # by a kernel: a plain copy goes to the copy engine, which reaches two thirds

    source, target = torch.empty(2, 1 << 28, device="cuda").normal_()
    copied, multiplied = (statistics.median(timings(launch, 20)) * 1e-6 for launch in (copy, product))
    return 2 * source.nbytes / copied, 2 * size**3 / multiplied


def machine() -> dict[str, str]:
    """Return the date, device and library versions of this run."""
    import triton

    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": str(torch.version.cuda or torch.version.hip),
    }


def line(result: dict[str, Any]) -> str:
    """Return a result as a line of text."""
    if "microseconds" not in result:
        return f"{result['case']:56} disagrees with its reference: {result['error']:.2e} > {result['tolerance']:.0e}"
    low, high = result["from_to"]
    text = f"{result['case']:56} {result['microseconds']:10.2f} us  ({low:.2f} to {high:.2f})"
    text += f"  {result['bytes'] / 1e6:9.2f} MB  {result['of_copy']:6.1%} of copy"
    if "flop" in result:
        text += f"  {result['flop'] / 1e9:9.2f} GFLOP  {result['of_matmul']:6.1%} of matmul"
    return text if result["error"] is not None else text + "  (not compared)"


def distance(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the norm of the difference, relative to the norm of `wanted`."""
    return float((got.double() - wanted.double()).norm() / wanted.double().norm())
