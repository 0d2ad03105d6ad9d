"""The sparse value product against the dense one, and that the rows it skips are never read."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_kernels.gpu import sparse_value


def product(hidden: torch.Tensor, w_t: torch.Tensor, splits: int) -> torch.Tensor:
    """Run sparse_value with an output that was filled with NaN."""
    out = torch.full((splits, 1, w_t.shape[1]), torch.nan, device=hidden.device)
    sparse_value.sparse_value(hidden, w_t, out)
    return out


@settings(max_examples=10, deadline=None)
@given(
    zeros=st.floats(0.0, 1.0),
    hidden_width=st.sampled_from([64, 500, 1024]),
    width=st.sampled_from([64, 100]),
    splits=st.sampled_from([1, 3, 4]),
    half=st.booleans(),
)
def test_it_is_the_dense_product_and_skipped_rows_are_not_read(
    zeros: float, hidden_width: int, width: int, splits: int, half: bool, device: str
) -> None:
    dtype = torch.float16 if half else torch.float32
    random = torch.Generator().manual_seed(hidden_width + splits)
    hidden = torch.randn(1, hidden_width, generator=random).square()
    hidden[torch.rand(1, hidden_width, generator=random) < zeros] = 0.0
    w_t = torch.randn(hidden_width, width, generator=random)
    hidden, w_t = hidden.to(device, dtype), w_t.to(device, dtype)
    wanted = sparse_value.reference(hidden, w_t, splits)
    w_t[hidden[0] == 0] = torch.nan
    got = product(hidden, w_t, splits)
    assert got.shape == (splits, 1, width)
    assert (got - wanted).norm() <= 1e-5 * wanted.norm()


@pytest.mark.parametrize("splits", [1, 8])
def test_no_token_fires_nothing(splits: int, device: str) -> None:
    hidden = torch.zeros(1, 512, dtype=torch.float16, device=device)
    assert (product(hidden, torch.ones(512, 64, dtype=torch.float16, device=device), splits) == 0).all()
