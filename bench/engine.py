"""Speed of the engine on a GPU, against its roofline, its targets, published figures and what PyPI has.

    python bench/engine.py [--sizes 0.1B,1.5B,7.2B] [--numerics fast,exact] [--parts decode,prefill,serving,peers]
                           [--json FILE] [--device cuda|cpu] [--tiny]

Random checkpoints are drawn on the device, with the feed-forward sparsity of trained models. Before any figure, greedy
ids and logits of the very graphs that are timed are held against the CPU's fp32: on a whole 0.1B model, and on two
layers of each size's width. Classes: (M) the model's step replayed as a graph, logits included, nothing drawn; (S)
with the sampler; (E) the whole engine: scheduler, sampler, penalties, stop suffixes, results; (E+) with every answer
read as it grows, by as many readers as a server would have, without HTTP. Prompts also launched kernel by kernel
(eager), and padded to the engine's graphs (G).
"serving" is the engine on its thread, in its first profile, with answers that end and others that begin. M, S, eager
and G are timed by the device's events, E by the wall clock. All contenders of a shape take turns, ten
rounds of them; medians are printed with the lowest and the highest. "of roof" is the share of the roofline with the
constants measured in this run, and in brackets with an H200's.

--tiny runs every line of it on a few tokens of a model of one layer, on the CPU in Triton's interpreter: its figures
mean nothing. Without a GPU and without --tiny nothing is measured.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1" if "--tiny" in sys.argv else str(os.cpu_count()))
if {"cpu", "--device=cpu"} & set(sys.argv):
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported

import torch
from speed import gate, machine, roofline
from speed.bench_device import BenchDevice
from speed.clock import ROUNDS
from speed.decode import decode
from speed.peers import peers
from speed.prefill import prefill
from speed.profile_rig import HALVES, MeasuredModel, ProfileRig, forget, rigs
from speed.serving import serving
from speed.table import lines

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.serving.process import SWITCH_S
from rwkv_weights.formats import synthetic
from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import Dims
from rwkvctl.protocol.numerics import Numerics

PARTS = ("decode", "prefill", "serving", "peers")
GATE_SIZE, GATE_LAYERS = "0.1B", 2
PEER_MOST_BYTES = 8 << 30  # a peer takes its checkpoint from a file


@dataclass(frozen=True, slots=True)
class Shapes:
    """The measured shapes: batches of decode, (sequences, tokens) of prefill, (batch, prompt, answer) of serving, and
    the gate's (long prompt, new tokens)."""

    batches: tuple[int, ...] = (1, 8, 32, 128, 512, 1024)
    prompts: tuple[tuple[int, int], ...] = ((1, 16), (1, 64), (16, 16), (16, 64), (1, 1024), (8, 1024), (32, 1024))
    served: tuple[int, int, int] = (512, 64, 256)
    gate: tuple[int, int] = (96, 16)
    peer_tokens: int = 1024
    rounds: int = ROUNDS


TINY = Shapes((2,), ((1, 3),), (1, 1, 2), (3, 2), 2, rounds=1)
TINY_DIMS = synthetic.dims_of(1, 64, vocabulary=257, ranks=(16, 8, 16, 24))


@dataclass(slots=True)
class Run:
    """A whole run; `records` is the content of the JSON file."""

    bench: BenchDevice
    shapes: Shapes
    numerics: Sequence[Numerics]
    parts: Sequence[str]
    dims: dict[str, Dims]
    report: dict[str, Any]
    file: Path | None
    records: list[dict[str, Any]] = field(default_factory=list)
    failed: bool = False

    def note(self, record: dict[str, Any]) -> None:
        """Print and store a record at once, so that a crash loses nothing that was measured before."""
        self.records.append(record)
        print("\n".join(lines(record)), flush=True)
        if self.file:
            self.file.write_text(json.dumps(self.report | {"records": self.records}, indent=1) + "\n")

    def size(self, size: str) -> None:
        """Measure one size. A failure of one size does not affect the others."""
        dims = self.dims[size]
        print(f"\n== {size}: {dims.layers} layers of {dims.width}, {roofline.parameters(dims) / 1e9:.3f} B parameters")
        try:
            if size != GATE_SIZE and not self.gate(size, replace(dims, layers=min(GATE_LAYERS, dims.layers))):
                return
            found = synthetic.drawn_on(self.bench.device, dims)
            subject = MeasuredModel.of(found, self.numerics, self.bench.device)
            kept = found if "peers" in self.parts and _file_bytes(dims) <= PEER_MOST_BYTES else None
            del found
            self.figures(size, subject, kept)
        except (OutOfMemory, torch.OutOfMemoryError) as error:
            self.failed = True
            self.note({"kind": "size", "size": size, "failed": f"out of memory: {error}", "targets": []})
        finally:
            forget()

    def figures(self, size: str, subject: MeasuredModel, found: Checkpoint | None) -> None:
        """Measure all parts that were asked for."""
        if "decode" in self.parts or "serving" in self.parts:
            self.decoding(size, subject)
        forget()
        if "prefill" in self.parts:
            for record in prefill(self.bench, size, subject, self.shapes.prompts):
                self.note(record)
            self.peak(size, "prefill")
        forget()
        if found is not None:
            for record in peers(self.bench, size, subject, found, self.shapes.peer_tokens):
                self.note(record)
        elif "peers" in self.parts:
            self.note({"kind": "peer", "size": size, "peer": "all", "failed": "too large a file", "targets": []})

    def decoding(self, size: str, subject: MeasuredModel) -> None:
        """Measure decode and serving with the largest batch that fits the memory."""
        batches = list(self.shapes.batches)
        served, prompt, tokens = self.shapes.served
        made = self.rigs_that_fit(size, subject, batches)
        if "decode" in self.parts:
            for record in decode(self.bench, size, subject, made, batches):
                self.note(record)
            self.peak(size, "decode")
        if "serving" in self.parts and served <= max(batches):
            name, rig = next(iter(made.items()))
            self.note(serving(self.bench, size, subject, name, rig, served, prompt, tokens))

    def rigs_that_fit(self, size: str, subject: MeasuredModel, batches: list[int]) -> dict[Numerics, ProfileRig]:
        """Return the rigs; batches that do not fit are removed from `batches`. Raises OutOfMemory if none fits."""
        while True:
            forget()
            try:
                return rigs(subject, self.recorded(batches), 4096 if self.bench.measured else 16)
            except OutOfMemory as error:
                if len(batches) == 1:
                    raise
                failed = f"out of memory: {error}"
                self.note({"kind": "decode", "size": size, "batch": batches.pop(), "failed": failed, "targets": []})

    def recorded(self, batches: Sequence[int]) -> list[int]:
        """Return the batches whose graphs are captured; for serving, smaller ones that it passes through too."""
        below = [self.shapes.served[0] // 4 * part for part in (2, 3)] if "serving" in self.parts else []
        return sorted({*batches, *(batch for batch in below if 0 < batch < max(batches))})

    def gate(self, size: str, dims: Dims) -> bool:
        """Compare a model of that shape with the CPU. If it fails, that is recorded and the size is not measured."""
        found = synthetic.drawn_on(self.bench.device, dims)
        subject = MeasuredModel.of(found, self.numerics, self.bench.device)
        reference = gate.on_cpu(found)
        del found
        long, new = self.shapes.gate
        batches = list(self.shapes.batches)
        made = self.rigs_that_fit(size, subject, batches)
        checked = gate.check(subject, made, reference, batches, long, new)
        for name, result in checked.items():
            told = {"kl": result.kl, "relative": result.relative, "same": result.same, "near": result.near,
                    "drawn": result.drawn, "good": result.good}  # fmt: skip
            self.note({"kind": "gate", "size": size, "layers": dims.layers, "numerics": name, **told, "targets": []})
        good = all(result.good for result in checked.values())
        self.failed |= not good
        del made, subject
        forget()
        machine.memory_peak(self.bench.device)
        return good

    def peak(self, size: str, what: str) -> None:
        self.note({"kind": "memory", "size": size, "part": what, "peak_bytes": machine.memory_peak(self.bench.device),
                   "targets": []})  # fmt: skip


def _file_bytes(dims: Dims) -> int:
    return 2 * roofline.parameters(dims)


def main() -> int:
    """Return exit code 1 if a gate failed, a size did not fit, or there are no figures for another reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sizes", default="0.1B,1.5B,7.2B", help=f"of {', '.join(roofline.SHAPES)}")
    parser.add_argument("--numerics", default="fast,exact", help=f"of {', '.join(HALVES)}")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument(
        "--tiny", action="store_true", help="run every line of the script on a tiny model; the figures mean nothing"
    )
    flags = parser.parse_args()
    sizes, numerics, parts = (_list(parser, flags, *of) for of in
                              (("sizes", roofline.SHAPES), ("numerics", HALVES), ("parts", PARTS)))  # fmt: skip
    if flags.device == "cuda" and not torch.cuda.is_available():
        print("no GPU here: nothing is measured (--device cpu --tiny is a dry run in Triton's interpreter)")
        return 0
    if flags.device == "cpu" and not flags.tiny:
        parser.error("on a CPU there is --tiny only; bench/engine_tokens.py measures the CPU's own path")
    torch.set_grad_enabled(False)
    sys.setswitchinterval(SWITCH_S)  # as in an engine's process
    device = torch.device(flags.device)
    facts = machine.machine(device)
    measured = machine.roof(device)
    for name, value in facts.items():
        print(f"{name:9} {value}")
    print(f"{'roofline':9} copy {measured.bytes_s / 1e12:.3g} TB/s, fp16 product {measured.flop_s / 1e12:.4g} TFLOP/s "
          f"(an H200: {machine.H200.bytes_s / 1e12:g} and {machine.H200.flop_s / 1e12:g})")  # fmt: skip
    dims = {size: TINY_DIMS if flags.tiny else roofline.dims_of(size) for size in {*sizes, GATE_SIZE}}
    shapes = TINY if flags.tiny else Shapes()
    bench = BenchDevice(device, facts["device"], (measured, machine.H200), shapes.rounds)
    own = {"bytes_s": measured.bytes_s, "flop_s": measured.flop_s}
    report = {"machine": facts, "roofline": own, "tiny": flags.tiny}
    run = Run(bench, shapes, numerics, parts, dims, report, flags.json)
    if run.gate(GATE_SIZE, dims[GATE_SIZE]):
        for size in sizes:
            run.size(size)
    return 1 if run.failed else 0


def _list(parser: argparse.ArgumentParser, flags: argparse.Namespace, name: str, known: Sequence[str]) -> list[Any]:
    found: list[str] = getattr(flags, name).split(",")
    if bad := [word for word in found if word not in known]:
        parser.error(f"--{name}: {', '.join(bad)} is not of {', '.join(known)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
