"""How long a checkpoint takes to load against the time that reading its bytes takes (`cat FILE > /dev/null`).

    python bench/weights_load.py [--file PATH] [--rounds N] [--device cpu|cuda]

Bar: at most 1.5x. The file is synthetic, of the 0.1B shape, unless one is given. Rounds are interleaved, medians are
printed with the spread. `lent` passes every tensor once through a buffer that is used again, as a consumer that packs
takes it; `owned` leaves all of them in memory of their own, whose first touch is in the time; `fp32` is owned and
converted; `mapped` is `formats.load.load` and a copy of each tensor. "cold" drops the file from the page cache first
(posix_fadvise): how cold the layers below are, a virtual machine does not tell.
"""

import argparse
import datetime as dt
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from rwkv_weights.formats import index, synthetic
from rwkv_weights.formats import load as checkpoint
from rwkv_weights.formats.tensor_stream import stream

CHUNK = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="a checkpoint, instead of a synthetic one of the 0.1B shape")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = flags.file or synthetic.write(Path(folder) / "bench.pth", synthetic.dims_of(12, 768))
        header(path, flags.device)
        for cold in (True, False):
            report(path, "cold" if cold else "warm", run(path, contenders(path, flags.device), flags.rounds, cold))


def header(path: Path, device: str) -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
    where = torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC, {cpu}, {os.cpu_count()} cores, kernel {platform.release()}")
    print(f"Python {platform.python_version()}, torch {torch.__version__}, rwkvctl {metadata.version('rwkvctl')}")
    print(f"{path.name}: {size_of(path) / 1e6:,.1f} MB, to {where}")


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in index.read(path).files)


def contenders(path: Path, device: str) -> dict[str, Callable[[], object]]:
    files = [str(file) for file in index.read(path).files]

    def cat() -> object:
        return subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)

    def drain(*, lend: bool) -> object:
        for _name, _tensor in stream(index.read(path), device, lend=lend):
            pass
        return torch.cuda.synchronize() if device.startswith("cuda") else None

    def owned(dtype: torch.dtype | None = None) -> object:
        kept = dict(stream(index.read(path), device, dtype))
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return kept

    def mapped() -> object:
        return {name: tensor.clone() for name, tensor in checkpoint.load(path).tensors.items()}

    return {
        "cat": cat,
        "lent": lambda: drain(lend=True),
        "owned": owned,
        "fp32": lambda: owned(torch.float32),
        "mapped": mapped,
    }


def run(path: Path, what: dict[str, Callable[[], object]], rounds: int, cold: bool) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in what}
    for number in range(rounds + 1):
        for name, load in what.items():
            if cold:
                forget(path)
            began = time.perf_counter()
            kept = load()
            spent = time.perf_counter() - began
            del kept
            if number:  # the first round warms imports and allocators
                times[name].append(spent)
    return times


def forget(path: Path) -> None:
    """Drop the file from the page cache."""
    for file in index.read(path).files:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def report(path: Path, state: str, times: dict[str, list[float]]) -> None:
    base, size = statistics.median(times["cat"]), size_of(path)
    print(f"\n{state:<8} {'median s':>9} {'min-max s':>15} {'GB/s':>6} {'x cat':>6}")
    for name, found in times.items():
        middle = statistics.median(found)
        spread = f"{min(found):.3f}-{max(found):.3f}"
        print(f"{name:<8} {middle:>9.3f} {spread:>15} {size / middle / 1e9:>6.2f} {middle / base:>6.2f}")


if __name__ == "__main__":
    sys.exit(main())
