"""The PyPI package `rwkv` as an independent oracle, in its own process, because it is configured by the environment."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

SWITCHES = ("RWKV_V7_ON=1", "RWKV_JIT_ON=0", "RWKV_CUDA_ON=0")
SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
from rwkv.model import RWKV
path, ids, out = sys.argv[1:]
logits, _ = RWKV(model=path, strategy="cpu fp32").forward(json.loads(ids), None, full_output=True)
torch.save(logits, out)
"""


def package_logits(path: Path, ids: Sequence[int]) -> Tensor | None:
    """Return the package's logits [T, V]; None if it is not installed, fails, or does not read this kind of file."""
    if path.suffix != ".pth" or find_spec("rwkv") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "logits.pth"
        command = [sys.executable, "-P", "-c", SCRIPT, str(path.with_suffix("")), json.dumps(list(ids)), str(out)]
        done = subprocess.run(["/usr/bin/env", *SWITCHES, *command], capture_output=True, check=False)
        if done.returncode != 0:
            return None
        logits: Tensor = torch.load(out, weights_only=True)
        return logits
