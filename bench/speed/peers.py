"""The same work by what PyPI has: the package `rwkv` with its CUDA kernels, and flash-linear-attention's model.

Each runs in a process of its own, on the same card at the same time, and is asked for a round when it is its turn.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from speed.bench_device import BenchDevice
from speed.clock import Spread, interleaved
from speed.profile_rig import MeasuredModel, rigs
from speed.steady import BusyEngine, prompt, prompts_s

from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import Dims

DECODED, PREFILLED = 24, 1024
SWITCHES = {"RWKV_V7_ON": "1", "RWKV_JIT_ON": "1"}

# Whatever a peer, or a compiler it starts, says goes to the log.
HEAD = """
import json, os, sys, time
real = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import torch
"""

RWKV = """
from rwkv.model import RWKV
path, strategy = sys.argv[1:]
model = RWKV(model=path, strategy=strategy)
wait = torch.cuda.synchronize if strategy.startswith("cuda") else lambda: None
torch.set_grad_enabled(False)

def decode(count):
    logits, state = model.forward([1, 2, 3], None)
    began = time.perf_counter()
    for _ in range(count):
        logits, state = model.forward([int(logits.argmax())], state)
    wait()
    return time.perf_counter() - began

def prefill(count):
    ids = [(i * 1103515245 + 12345) % (model.args.vocab_size - 7) + 1 for i in range(count)]
    wait()
    began = time.perf_counter()
    logits, _ = model.forward(ids, None)
    int(logits.argmax())
    return time.perf_counter() - began
"""

FLA = """
from fla.models import RWKV7Config, RWKV7ForCausalLM
d = json.loads(sys.argv[1])
w, a, v, g = d["ranks"]
config = RWKV7Config(
    hidden_size=d["width"], intermediate_size=d["hidden"], num_hidden_layers=d["layers"], head_dim=64,
    decay_low_rank_dim=w, a_low_rank_dim=a, v_low_rank_dim=v, gate_low_rank_dim=g, vocab_size=d["vocabulary"],
)
with torch.device("cuda"):
    model = RWKV7ForCausalLM(config).to(torch.bfloat16).eval()
torch.set_grad_enabled(False)

def fed(ids, cache=None):
    out = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values

def decode(count):
    token, cache = fed(torch.tensor([[1, 2, 3]], device="cuda"))
    began = time.perf_counter()
    for _ in range(count):
        token, cache = fed(token, cache)
        token.item()
    return time.perf_counter() - began

def prefill(count):
    ids = torch.randint(1, d["vocabulary"] - 7, (1, count), device="cuda")
    torch.cuda.synchronize()
    began = time.perf_counter()
    fed(ids)[0].item()
    return time.perf_counter() - began
"""

LOOP = """
print(json.dumps("ready"), file=real, flush=True)
for line in sys.stdin:
    what, count = line.split()
    seconds = {"decode": decode, "prefill": prefill}[what](int(count))
    print(json.dumps(seconds), file=real, flush=True)
"""


class PeerError(Exception):
    """The peer did not start or broke off; the text is the end of what it said."""


class Peer:
    """Process of a peer, which runs one timed round at a time. Raises PeerError if it does not start."""

    def __init__(self, script: str, arguments: list[str], switches: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", HEAD + script + LOOP, *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, **switches},
            )  # fmt: skip
        self._answer()

    def seconds(self, what: str, count: int) -> float:
        """Run one `decode` or `prefill` round of `count` tokens and return its seconds. Raises PeerError if it died."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{what} {count}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerError(self._last_words()) from error
        return float(self._answer())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> float | str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(self._last_words())
        answer: float | str = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self._process.wait(10)
        lines = [line.strip() for line in self._log.read_text().splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self._process.returncode}"


def peers(
    bench: BenchDevice, size: str, subject: MeasuredModel, found: Checkpoint, tokens: int = PREFILLED
) -> Iterator[dict[str, object]]:
    """A record for each peer, ours beside it, rounds in turn; or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        starts: dict[str, tuple[str, Callable[[], Peer]]] = {
            "rwkv": ("rwkv", lambda: _rwkv(Path(folder), found, bench.device)),
            "flash-linear-attention": ("fla", lambda: _fla(Path(folder), found.dims)),
        }
        for name, (module, start) in starts.items():
            known: dict[str, object] = {"kind": "peer", "size": size, "peer": name, "targets": []}
            if find_spec(module) is None:
                yield known | {"failed": "not installed"}
            elif name != "rwkv" and bench.device.type != "cuda":
                yield known | {"failed": "runs on a GPU only"}
            else:
                yield known | _compared(bench, subject, start, tokens)


def _compared(bench: BenchDevice, subject: MeasuredModel, start: Callable[[], Peer], tokens: int) -> dict[str, object]:
    try:
        peer = start()
    except PeerError as error:
        return {"failed": f"does not run here: {error}"}
    try:
        return _ratios(interleaved(_contenders(bench, subject, peer, tokens), bench.rounds), tokens)
    except PeerError as error:
        return {"failed": f"broke off: {error}"}
    finally:
        peer.close()


def _contenders(bench: BenchDevice, subject: MeasuredModel, peer: Peer, tokens: int) -> dict[str, Callable[[], float]]:
    """Return functions that measure the seconds for each token of decode at batch 1 and of a prompt, for the peer
    and for our engine (E) in its first profile."""
    name, rig = next(iter(rigs(subject, [1], tokens).items()))
    count = DECODED if bench.measured else 1
    ids = [prompt(random.Random(3), subject.compiler.tokenizer.size, tokens)]
    busy = BusyEngine.of(rig, subject.compiler, 1, 3, (count + 4) * (bench.rounds + 2))
    return {
        "peer decode": lambda: peer.seconds("decode", count) / count,
        f"{name} decode": lambda: busy.step_s(count),
        "peer prefill": lambda: peer.seconds("prefill", tokens) / tokens,
        f"{name} prefill": lambda: prompts_s(rig, subject.compiler, ids) / tokens,
    }


def _ratios(found: Mapping[str, Spread], tokens: int) -> dict[str, object]:
    speeds = {name: spent.of(1) for name, spent in found.items()}
    theirs_d, ours_d, theirs_p, ours_p = speeds.values()
    return {
        "tokens": tokens,
        "tok_s": {name: speed._asdict() for name, speed in speeds.items()},
        "ratio": {"decode": ours_d.median / theirs_d.median, "prefill": ours_p.median / theirs_p.median},
    }


def _rwkv(folder: Path, found: Checkpoint, device: torch.device) -> Peer:
    """Start the peer `rwkv` with its CUDA kernels, which it compiles when it starts. The checkpoint is passed to it as
    a file."""
    path = folder / "peer.pth"
    if not path.exists():
        torch.save({key: tensor.cpu() for key, tensor in found.tensors.items()}, path)
    gpu = device.type == "cuda"
    strategy = "cuda fp16" if gpu else "cpu fp32"
    return Peer(
        RWKV,
        [str(path.with_suffix("")), strategy],
        SWITCHES | {"RWKV_CUDA_ON": "1" if gpu else "0"},
        folder / "rwkv.log",
    )


def _fla(folder: Path, dims: Dims) -> Peer:
    """Start the peer `fla` with its model in bf16. It draws random weights itself."""
    told = {name: getattr(dims, name) for name in ("width", "hidden", "layers", "ranks", "vocabulary")}
    return Peer(FLA, [json.dumps(told)], {}, folder / "fla.log")
