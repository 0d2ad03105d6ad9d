"""Every kernel compiles for Hopper at its true shapes, without spills and with the matrix unit where it should be
used."""

import os
import subprocess
import sys

import pytest


@pytest.mark.slow("triton")
def test_every_kernel_compiles_for_hopper() -> None:
    """In a process of its own: with TRITON_INTERPRET there is nothing to compile."""
    plain = {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}
    found = subprocess.run(
        [sys.executable, "-m", "rwkv_kernels.gpu.compile_check"],
        env=plain, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    for kernel in ("gemm", "sparse_value", "sampler", "logprobs", "wkv7", "low_rank", "add_norm_mix"):
        assert f" {kernel}" in found.stdout, f"no variant of {kernel}"
