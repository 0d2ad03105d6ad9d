"""How long merging an adapter takes, against reading the base and writing as many bytes.

    python bench/adapter_merge.py [--layers 24] [--width 2048] [--rank 32] [--rounds 3] [--pause 5] [--folder DIR]

The base is random, of the shape of 1.5B unless told otherwise, and lies in the page cache for both sides, which take
turns; figures are medians. Before each, --pause seconds go by: a virtual machine may hand freed memory back to its
host and pay to get it again, and whoever runs right after the other's file is deleted would not pay. `copy`: the base
is read and written, and the file is on the disk at the end. `merge`: the verb as an operator runs it, in a process of
its own: Python and torch are started, all is checked, merged, written and hashed. `first`: the base is hashed, too, as
with the first adapter of a base. Bar: merge <= 3 x copy.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from figures import header, line

from rwkv_weights.formats import synthetic
from rwkv_weights.formats.schema import Dims

PIECE = 16 * 1024 * 1024
KINDS = ("lora", "bone", "bat")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument(
        "--folder", type=Path, help="on the disk that is to be measured (default: the temporary folder)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pause", type=float, default=5.0)
    options = parser.parse_args()
    header(f"torch {torch.__version__}")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder, dims = Path(name), synthetic.dims_of(options.layers, options.width)
        base = synthetic.write(folder / "base.pth", dims)
        print(
            f"base: {base.stat().st_size / 1e9:.2f} GB, {dims.layers} layers of width {dims.width}, rank {options.rank}"
        )
        for kind in KINDS:
            adapter = folder / f"{kind}.pth"
            torch.save(adapter_tensors(kind, dims, options.rank), adapter)
            took: dict[str, list[float]] = {"copy": [], "first merge": [], "next merge": []}
            for home in (folder / f"{kind}-{number}" for number in range(options.rounds)):
                for what, seconds in took.items():
                    time.sleep(options.pause)
                    copied = what == "copy"
                    seconds.append(copy(base, folder / "copy.pth") if copied else merge(base, adapter, home, kind))
            for what, seconds in took.items():
                line(f"{kind}: {what}", median(seconds), "s", None)
            for what in ("first merge", "next merge"):
                ratios = [one / copied for one, copied in zip(took[what], took["copy"], strict=True)]
                line(f"{kind}: {what}, times a copy", median(ratios), "x", 3)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    line("resident memory of a merge, with the mapped base", peak, "GB", None)


def copy(base: Path, to: Path) -> float:
    """Return the seconds that reading a file and writing it to the disk takes."""
    began = time.perf_counter()
    with base.open("rb") as source, to.open("wb") as target:
        while piece := source.read(PIECE):
            target.write(piece)
        target.flush()
        os.fsync(target.fileno())
    took = time.perf_counter() - began
    to.unlink()
    return took


def merge(base: Path, adapter: Path, home: Path, kind: str) -> float:
    """Return the seconds that the verb takes; a home knows the sha256 of a base after the first."""
    alpha = ["--alpha", "32"] if kind == "lora" else []
    to = base.with_name("merged.pth")
    words = ["merge", str(adapter), "--base", str(base), *alpha, "--to", str(to), "--home", str(home)]
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "rwkv_weights", *words], check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - began
    to.unlink()
    to.with_name(f"{to.name}.sha256").unlink()
    return took


def adapter_tensors(kind: str, dims: Dims, rank: int) -> dict[str, torch.Tensor]:
    """Return small random updates of every matrix that RWKV-PEFT adapts."""
    draw = torch.Generator().manual_seed(1)
    found = {}
    for layer in range(dims.layers):
        for name in ("att.receptance", "att.key", "att.value", "att.output", "ffn.key", "ffn.value"):
            place = f"blocks.{layer}.{name}"
            out = dims.hidden if name == "ffn.key" else dims.width
            into = dims.hidden if name == "ffn.value" else dims.width
            shapes = {
                "lora": {"lora_A": (rank, into), "lora_B": (out, rank)},
                "bone": {"disha": (rank, out)},
                "bat": {"disha": (into // rank, rank, rank)},
            }[kind]
            for part, shape in shapes.items():
                found[f"{place}.{part}"] = (0.01 * torch.randn(*shape, generator=draw)).bfloat16()
    return found


if __name__ == "__main__":
    main()
