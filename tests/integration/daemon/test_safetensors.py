"""A checkpoint that lies as a folder of safetensors is listed, hashed, served and measured like any other."""

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType

import torch

from rwkv_weights.files import builtin_checkpoint_path

HELPER = Path(__file__).parents[2] / "unit" / "weights" / "hf_layout.py"


def layout() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hf_layout", HELPER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_folder_of_shards_is_measured_under_the_sum_of_its_files(node) -> None:
    folder = node.home / "weights" / "demo-hf"
    layout().write(folder, torch.load(builtin_checkpoint_path()), shards=2)
    (job,) = node.dispatch(models=["demo-hf"], only_datasets=["demo_arith"], limit=20)
    done = node.wait_for_state(job, "done", "failed")
    assert done["state"] == "done", done
    assert done["score"]["metrics"]["accuracy"]["value"] == 1.0
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in sorted(folder.glob("*.safetensors"))]
    assert done["score"]["provenance"]["weights_sha256"] == hashlib.sha256("".join(lines).encode()).hexdigest()
