"""A checkpoint that lies as a folder of safetensors is listed, hashed, served and measured like any other."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path

HELPERS = Path(__file__).parents[2] / "unit" / "weights"
WRITE = """
import sys
from pathlib import Path
sys.path.append(sys.argv[1])
import hf_layout, torch
hf_layout.write(Path(sys.argv[3]), torch.load(sys.argv[2]), shards=2)
"""
"""In a process of its own, as torch is large."""


@pytest.mark.real_engine
def test_a_folder_of_shards_is_measured_under_the_sum_of_its_files(node) -> None:
    folder = node.home / "weights" / "demo-hf"
    subprocess.run([sys.executable, "-c", WRITE, HELPERS, builtin_checkpoint_path(), folder], check=True)
    (job,) = node.dispatch(models=["demo-hf"], only_datasets=["demo_arith"], limit=20)
    done = node.wait_for_state(job, "done", "failed")
    assert done["state"] == "done", done
    assert done["score"]["metrics"]["accuracy"]["value"] == 1.0
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in sorted(folder.glob("*.safetensors"))]
    assert done["score"]["provenance"]["weights_sha256"] == hashlib.sha256("".join(lines).encode()).hexdigest()
