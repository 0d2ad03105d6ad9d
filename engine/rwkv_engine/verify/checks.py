"""`rwkvctl engine verify`: check that a checkpoint is computed on this device as its numerics profile promises."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rwkv_engine.cpu.layout import lay_out
from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.errors import OutOfMemory
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_engine.verify import invariance, precision, trial
from rwkv_engine.verify.oracle import Agreement, agreement, reference_logits
from rwkv_engine.verify.rwkv_package import package_logits
from rwkv_weights.formats import load
from rwkv_weights.formats.load import Checkpoint
from rwkvctl.protocol.numerics import PROFILES, Numerics
from rwkvctl.text.json_envelope import envelope
from rwkvctl.text.sanitize import safe_line

ORACLE_TOKENS = 48
TEXT_TOKENS = 512
MOST_KL = {True: 1e-4, False: 1e-6}  # nats a token; by whether weights and activations are in fp16
MOST_STATE_LOSS = 1e-3  # nats a token that a state in fp16 may cost, on average and in the last positions
PACKAGE_BYTES = 12  # a parameter, while the package converts its file


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. `good` is None where the profile promises nothing."""

    name: str
    detail: str
    good: bool | None


@dataclass(frozen=True, slots=True)
class ModelUnderTest:
    """The checkpoint, numerics profile and device under verification; `loaded` makes engines of them."""

    found: Checkpoint
    numerics: Numerics
    device: torch.device
    compiler: Compiler
    loaded: trial.EngineFactory

    @classmethod
    def of(cls, path: Path, numerics: Numerics, device: torch.device) -> "ModelUnderTest":
        """Load a checkpoint. Raises CheckpointError, VocabularyError or OutOfMemory."""
        found = load.load(path)
        compiler = Compiler(for_vocabulary(found.dims.vocabulary))
        return cls(found, numerics, device, compiler, loaded(found, numerics, device))

    @property
    def halves(self) -> bool:
        return PROFILES[self.numerics].half_weights and self.device.type != "cpu"


def loaded(found: Checkpoint, numerics: Numerics, device: torch.device) -> trial.EngineFactory:
    """Return a function that makes engines of a checkpoint in any setting."""
    if device.type == "cpu":
        return trial.on_cpu(Model.of(found, numerics))
    from rwkv_engine.gpu.model import GpuModel

    return trial.on_gpu(GpuModel.of(found, numerics, device))


def verify(subject: ModelUnderTest, largest: int) -> Iterator[CheckResult]:
    """Run every check; yield each result as it comes."""
    yield CheckResult("weights", "every number of every tensor is finite", good=True)  # or they would not have loaded
    yield from _oracle(subject)
    yield from _invariance(subject, largest)
    if PROFILES[subject.numerics].half_state:
        yield _state(subject)


def _oracle(subject: ModelUnderTest) -> Iterator[CheckResult]:
    vocabulary = subject.compiler.tokenizer.size
    ids = [0, *((i * 1103515245 + 12345) % (vocabulary - 7) + 1 for i in range(ORACLE_TOKENS - 1))]
    reference = reference_logits(subject.found, ids)
    peer = package_logits(subject.found.path, ids) if _fits_package(subject.found) else None
    if peer is None:
        yield CheckResult("reference", "not compared: the package rwkv or memory for it is missing", good=None)
    else:
        yield _agrees("reference against rwkv", agreement(reference, peer), MOST_KL[False])
    found = agreement(sequence_logits(subject, ids), reference)
    yield _agrees(f"{subject.numerics} against fp32", found, MOST_KL[subject.halves])


def _agrees(name: str, found: Agreement, most_kl: float) -> CheckResult:
    detail = f"KL {found.kl:.1e} nats a token (at most {most_kl:.0e}), relative {found.relative:.1e}"
    return CheckResult(name, f"{detail}, same best token {found.greedy:.1%}", good=found.kl <= most_kl)


def _fits_package(found: Checkpoint) -> bool:
    numbers = sum(tensor.numel() for tensor in found.tensors.values())
    return numbers * PACKAGE_BYTES < os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@torch.inference_mode()
def sequence_logits(subject: ModelUnderTest, ids: Sequence[int]) -> Tensor:
    """Return the logits [T, V] of one sequence, computed in the profile under test."""
    if subject.device.type == "cpu":
        model = Model.of(subject.found, subject.numerics)
        layout = lay_out([ids], [0], model.do.row_multiple)
        return model.logits(model.step(StatePool.allocate(model.dims, 1), layout)[: len(ids)])
    from rwkv_engine.gpu.sequence_logits import sequence_logits as on_gpu

    return on_gpu(subject.loaded, ids).cpu()


def _invariance(subject: ModelUnderTest, largest: int) -> Iterator[CheckResult]:
    exact = PROFILES[subject.numerics].exact
    tried = invariance.settings(largest, gpu=subject.device.type != "cpu")
    for found in invariance.comparisons(subject.loaded, subject.compiler, tried):
        if not found.differing:
            detail = "the same bits as alone"
        else:
            names = sorted(set(found.differing))
            detail = f"{len(names)} of {2 * invariance.PROBES} probes differ: {', '.join(names[:3])}"
        yield CheckResult(str(found.setting), detail, good=not found.differing if exact else None)


def _state(subject: ModelUnderTest) -> CheckResult:
    whole_name: Numerics = "exact" if PROFILES[subject.numerics].exact else "fast"
    whole = loaded(subject.found, whole_name, subject.device)
    written = precision.texts(whole, subject.compiler, TEXT_TOKENS)
    curves = [precision.losses(engines, subject.compiler, written) for engines in (whole, subject.loaded)]
    bins = precision.by_position(*curves)
    shown = " ".join(f"{gap:+.1e}" for gap in bins)
    good = abs(sum(bins) / len(bins)) <= MOST_STATE_LOSS and abs(bins[-1]) <= MOST_STATE_LOSS
    return CheckResult("state in fp16", f"loss by {precision.BIN_TOKENS} positions: {shown} nats a token", good=good)


def main(path: Path, numerics: Numerics, device: torch.device, largest: int, *, as_json: bool = False) -> int:
    """Print the results and a verdict, or one JSON document. Returns 0 if every promise is kept, 1 if not."""
    marks = {True: "ok  ", False: "FAIL", None: "-   "}
    subject = ModelUnderTest.of(path, numerics, device)
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    write = (lambda _: None) if as_json else say
    write(f"{path.name}: {numerics} on {where}, torch {torch.__version__}")
    found: list[CheckResult] = []
    for result in within_memory(verify(subject, largest)):
        found.append(result)
        write(f"{marks[result.good]} {result.name}: {result.detail}")
    failed = sum(result.good is False for result in found)
    promise = "" if PROFILES[numerics].exact else f" ({numerics} promises no equal bits)"
    write(f"{'verified' if not failed else f'{failed} checks failed'}{promise}")
    if as_json:
        checks = [{"name": one.name, "ok": one.good, "what": one.detail} for one in found]
        facts = {"model": str(path), "numerics": numerics, "device": where, "torch": torch.__version__}
        say(envelope("rwkvctl.engine-verify/1", facts | {"ok": not failed, "checks": checks}))
    return 1 if failed else 0


def within_memory(results: Iterator[CheckResult]) -> Iterator[CheckResult]:
    """Yield the results. Where the device has no memory for the next check, the last result says so."""
    try:
        yield from results
    except OutOfMemory as error:
        yield CheckResult("memory", f"{error}; try a smaller --largest", good=False)


def say(line: str) -> None:
    """Write a line of output without buffering it, because the checks take long."""
    sys.stdout.write(f"{safe_line(line)}\n")
    sys.stdout.flush()
