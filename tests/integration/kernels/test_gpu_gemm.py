"""The matrix product against plain torch, and a row's bits against the same row in other batches."""

import pytest
import torch
from torch import Tensor

from rwkv_kernels.gpu import gemm, launch_config

KINDS = [(torch.float16, 2e-3), (torch.float32, 1e-5)]


def random(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> Tensor:
    """Normal numbers of a fixed seed."""
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return numbers.to(device, dtype)


def weights(planes: int, n: int, k: int, dtype: torch.dtype, device: str, *, transposed: bool) -> Tensor:
    """[planes, n, k], stored as [planes, k, n] if transposed."""
    if transposed:
        return random(planes, k, n, dtype=dtype, device=device, seed=1).transpose(1, 2)
    return random(planes, n, k, dtype=dtype, device=device, seed=1)


def product(x: Tensor, w: Tensor, dtype: torch.dtype = torch.float32, **how) -> Tensor:
    """Run gemm with an output that was filled with NaN."""
    leading = x.shape[0] if how.get("serial") else max(x.shape[0], how.get("splits", 1))
    out = torch.full((leading, x.shape[1], w.shape[1]), torch.nan, dtype=dtype, device=x.device)
    gemm.gemm(x, w, out, **how)
    return out


def distance(got: Tensor, wanted: Tensor) -> float:
    return float((got.double() - wanted.double()).norm() / wanted.double().norm())


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("n", "k"), [(64, 64), (33, 200), pytest.param(257, 128, marks=pytest.mark.slow("triton"))])
def test_it_is_the_product(n: int, k: int, transposed: bool, dtype: torch.dtype, tolerance: float, device: str) -> None:
    x, w = random(2, 5, k, dtype=dtype, device=device), weights(2, n, k, dtype, device, transposed=transposed)
    assert distance(product(x, w), gemm.reference(x, w)) < tolerance
    assert distance(product(x, w, dtype), x.float() @ w.float().transpose(1, 2)) < tolerance


@pytest.mark.slow("triton")
@pytest.mark.parametrize("rows", [1, 17, 40, 70, 130])
@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
def test_every_tile_of_rows(rows: int, dtype: torch.dtype, tolerance: float, device: str) -> None:
    x, w = random(1, rows, 128, dtype=dtype, device=device), weights(1, 96, 128, dtype, device, transposed=False)
    assert distance(product(x, w), gemm.reference(x, w)) < tolerance


@pytest.mark.slow("triton")
@pytest.mark.parametrize("tile", [launch_config.Tile(128, 128, 8, 4), launch_config.Tile(128, 256, 8, 3)])
def test_the_tiles_of_large_batches(tile: launch_config.Tile, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_config, "gemm_tile", lambda *_, **__: tile)
    x, w = (
        random(1, 260, 64, dtype=torch.float16, device=device),
        random(1, 200, 64, dtype=torch.float16, device=device),
    )
    assert distance(product(x, w), gemm.reference(x, w)) < 2e-3


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
def test_planes_are_read_through_strides(dtype: torch.dtype, tolerance: float, device: str) -> None:
    """r, k and v are three of the six planes of the mix; their outputs lie in one wider tensor."""
    mixed, w = random(6, 4, 128, dtype=dtype, device=device), weights(3, 64, 128, dtype, device, transposed=False)
    wide = torch.full((3, 4, 80), torch.nan, dtype=dtype, device=device)
    gemm.gemm(mixed[1:4], w, wide[:, :, 16:])
    assert distance(wide[:, :, 16:], gemm.reference(mixed[1:4], w)) < tolerance
    assert wide[:, :, :16].isnan().all()


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
def test_relu_squared(dtype: torch.dtype, tolerance: float, device: str) -> None:
    x, w = random(1, 3, 64, dtype=dtype, device=device), weights(1, 128, 64, dtype, device, transposed=False)
    got = product(x, w, dtype, epilogue="relu2")
    assert distance(got, gemm.reference(x, w, epilogue="relu2")) < tolerance
    assert (got == 0).float().mean() > 0.3


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("transposed", [False, True])
def test_splits_are_partial_sums_and_serial_adds_them(transposed: bool, dtype: torch.dtype, device: str) -> None:
    x, w = random(1, 7, 450, dtype=dtype, device=device), weights(1, 70, 450, dtype, device, transposed=transposed)
    parts = product(x, w, splits=4)
    assert distance(parts, gemm.reference(x, w, splits=4)) < 1e-5
    added = ((parts[0] + parts[1]) + parts[2]) + parts[3]
    assert torch.equal(product(x, w, splits=4, serial=True)[0], added)


@pytest.mark.usefixtures("ordered_dot")
@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.float32, marks=pytest.mark.slow("triton"))])
@pytest.mark.parametrize(
    ("how", "transposed"),
    [
        ({"splits": 2, "serial": True}, True),
        pytest.param({}, True, marks=pytest.mark.slow("triton")),
        pytest.param({"splits": 2}, False, marks=pytest.mark.slow("triton")),
        pytest.param({"epilogue": "relu2"}, False, marks=pytest.mark.slow("triton")),
    ],
)
def test_a_row_has_the_same_bits_in_any_batch(how: dict, transposed: bool, dtype: torch.dtype, device: str) -> None:
    """The batch grows through every width of tile, and the row moves to another place."""
    n, k = (2048, 2048) if device == "cuda" else (70, 136)
    x, w = random(1, 140, k, dtype=dtype, device=device), weights(1, n, k, dtype, device, transposed=transposed)
    alone = product(x[:, :1], w, **how)
    sizes = (1, 2, 3, 7, 16, 33, 70, 140) if device == "cuda" else (2, 3, 7, 16, 33)
    for rows in sizes:
        batch = x[:, :rows].roll(rows // 2, 1)  # row 0 comes to place rows // 2
        assert torch.equal(product(batch, w, **how)[:, rows // 2], alone[:, 0]), rows


@pytest.mark.slow("triton")
@pytest.mark.usefixtures("ordered_dot")
def test_a_row_has_the_same_bits_in_the_tiles_of_large_batches(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, k = (1024, 1024) if device == "cuda" else (130, 128)
    x, w = random(1, 260, k, dtype=torch.float16, device=device), random(1, n, k, dtype=torch.float16, device=device)
    alone = product(x[:, :1], w)[:, 0]
    for tile in (
        launch_config.Tile(64, 128, 4, 4),
        launch_config.Tile(128, 128, 8, 4),
        launch_config.Tile(128, 256, 8, 3),
    ):
        monkeypatch.setattr(launch_config, "gemm_tile", lambda *_, tile=tile, **__: tile)
        for place in (0, 200):
            assert torch.equal(product(x.roll(place, 1), w)[:, place], alone), (tile, place)


def test_plans_fill_the_gpu_and_depend_on_the_shape_alone() -> None:
    for width in (768, 1024, 2048, 2560, 4096):
        for n, k in ((width, width), (width, 4 * width)):
            plan = launch_config.plan(n, k)
            assert k // plan.block_k >= launch_config.LEAST_STEPS * plan.splits
            filled = n // launch_config.MATRIX_ROWS * plan.splits >= launch_config.PROGRAMS
            assert filled or k // plan.block_k < 2 * launch_config.LEAST_STEPS * plan.splits, (n, k, plan)
    assert launch_config.plan(2048, 8192).splits == 8
    assert launch_config.plan(65536, 2048).splits == 1
