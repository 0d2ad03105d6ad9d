"""NaN and infinities are found in every type, at any position."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rwkv_weights.errors import CheckpointValuesError
from rwkv_weights.formats.finite import FiniteCheck, check, listed

BAD = [float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@given(
    bad=st.sampled_from([*BAD, 0.0, 6e4]),
    size=st.integers(1, 300),
    place=st.integers(0, 299),
    turned=st.booleans(),
)
def test_one_number_is_enough(dtype: torch.dtype, bad: float, size: int, place: int, turned: bool) -> None:
    tensor = torch.linspace(-3, 3, 3 * size).reshape(3, size).to(dtype)
    tensor.view(-1)[place % (3 * size)] = bad
    tensor = tensor.t() if turned else tensor
    found = FiniteCheck()
    found.add("t", tensor)
    assert bool(found.damaged()) == (not bool(tensor.isfinite().all()))


def test_the_largest_numbers_of_a_type_are_fine() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        check("x.pth", "t", torch.tensor([torch.finfo(dtype).max, torch.finfo(dtype).min], dtype=dtype))


def test_a_conversion_that_overflows_is_found() -> None:
    with pytest.raises(CheckpointValuesError, match=r"x\.pth holds NaN or infinities, in emb\.weight"):
        check("x.pth", "emb.weight", torch.tensor([1e5]).to(torch.bfloat16).to(torch.float16))


def test_nothing_is_nothing_bad() -> None:
    check("x.pth", "empty", torch.zeros(0, 3))
    FiniteCheck().finish("x.pth")
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more tensors"
