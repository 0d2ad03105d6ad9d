"""The product of many rows: its numbers, and its bits, are those of `gemm`."""

import pytest
import torch
from torch import Tensor

from rwkv_kernels.gpu import gemm, gemm_persistent, launch_config

HALF, FULL = torch.float16, torch.float32


def random(*shape: int, device: str, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device, HALF)


@pytest.fixture
def both_ways(monkeypatch: pytest.MonkeyPatch, device: str):
    """Return a function that computes a product by both kernels, into outputs that were filled with NaN."""
    if device == "cuda" and not gemm_persistent._supported():
        pytest.skip("needs a GPU of the Hopper generation")

    def run(x: Tensor, w: Tensor, kind: torch.dtype, *, relu2: bool = False, splits: int = 1) -> tuple[Tensor, Tensor]:
        ours, other = (
            torch.full((x.shape[0], x.shape[1], w.shape[1]), torch.nan, dtype=kind, device=device) for _ in range(2)
        )
        gemm_persistent.gemm_persistent(x, w, ours, relu2=relu2, splits=splits)
        with monkeypatch.context() as patch:
            patch.setattr(gemm_persistent, "suits", lambda *_: False)
            gemm.gemm(x, w, other, epilogue="relu2" if relu2 else "none", splits=splits, serial=splits > 1)
        return ours, other

    return run


CASES = {
    "r k v": {"planes": 3},
    "key": {"relu2": True},
    "head": {"kind": FULL},
    "output": {"kind": FULL, "splits": 2},
    "value": {"kind": FULL, "splits": 2, "transposed": True},
}


@pytest.mark.slow("triton")
@pytest.mark.usefixtures("ordered_dot")
@pytest.mark.parametrize("case", CASES)
def test_every_element_has_the_bits_of_the_other_kernel(case: str, both_ways, device: str) -> None:
    how = dict(CASES[case])
    planes, transposed, kind = how.pop("planes", 1), how.pop("transposed", False), how.pop("kind", HALF)
    n, k, rows = (1160, 1024, 1000) if device == "cuda" else (136, 128, 270)
    x = random(2 * planes, rows, k, device=device)[:planes]
    w = random(planes, *((k, n) if transposed else (n, k)), device=device, seed=1)
    ours, other = both_ways(x, w.transpose(1, 2) if transposed else w, kind, **how)
    assert torch.equal(ours, other)
    assert not ours.isnan().any()


@pytest.mark.slow("triton")
def test_a_square_beyond_fp16_is_its_largest_number(both_ways, device: str) -> None:
    x, w = torch.full((1, 8, 64), 8.0, dtype=HALF, device=device), torch.ones(1, 8, 64, dtype=HALF, device=device)
    for found in both_ways(x, w, HALF, relu2=True):
        assert (found == torch.finfo(HALF).max).all()


def test_only_aligned_fp16_of_many_rows_suits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_persistent, "_supported", lambda: True)
    rows, n = launch_config.PERSISTENT_ROWS, 4096

    def suits(x: Tensor, w: Tensor, out: Tensor) -> bool:
        return gemm_persistent.suits(x, w, out, 1)

    x, w, out = torch.empty(6, rows, 128, dtype=HALF), torch.empty(1, n, 128, dtype=HALF), torch.empty(1, rows, n)
    assert suits(x[:1], w, out)
    assert suits(x[:1], w.transpose(1, 2).contiguous().transpose(1, 2), out)
    assert not suits(x[:1, 1:], w, out[:, 1:]), "too few rows"
    assert not suits(x[:1], w[:, :768], torch.empty(1, rows, 768)), "too few tiles"
    assert not suits(x[:1].float(), w, out)
    assert not suits(x[:1, :, :100], w[:, :, :100], out), "not whole blocks of K"
    assert not suits(x[:1], w, torch.empty(1, rows, n + 1)[:, :, 1:]), "an address between"
    assert not suits(x[:1], w, torch.empty(1, rows, n + 1)[:, :, :n]), "rows that are not aligned"
