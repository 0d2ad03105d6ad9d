"""The device of the GPU kernels: the GPU if there is one, else CPU tensors in Triton's interpreter."""

import os
from importlib.util import find_spec

import numpy as np
import pytest
import torch

collect_ignore_glob = [] if find_spec("triton") else ["test_gpu_*.py"]


@pytest.fixture(scope="session")
def device() -> str:
    """The device of every tensor in these tests."""
    return "cuda" if os.environ.get("TRITON_INTERPRET") != "1" and torch.cuda.is_available() else "cpu"


@pytest.fixture
def ordered_dot(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bitwise tests: the interpreter's matrix product adds in the order of k, as a matrix unit does.

    numpy's own product blocks its sums by the width of the tile, which no matrix unit does; with it, no kernel whose
    tile grows with the batch could keep its bits. On a GPU this changes nothing.
    """
    if device == "cpu":
        from triton.runtime import interpreter

        def create_dot(self, a, b, d, input_precision, max_num_imprecise_acc):
            x, y, out = a.data.astype(np.float32), b.data.astype(np.float32), d.data.copy()
            for k in range(x.shape[-1]):
                out += x[..., :, k, None] * y[..., k, None, :]
            return interpreter.TensorHandle(out, d.dtype.scalar)

        monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", create_dot)
