"""Row-wise operations: products, functions in blocks, softmax statistics; right, and the same bits in any batch."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from rwkv_kernels import elementwise, linear, logprob

SHAPES = [(128, 16), (12, 192), (192, 257), (768, 64), (768, 768)]


@pytest.fixture(autouse=True)
def restore_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("activation", ["none", "relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("above", [0, linear.SMALL])
@pytest.mark.parametrize(("k", "n"), SHAPES)
def test_products_are_right(k: int, n: int, above: int, activation: linear.Activation) -> None:
    make = torch.Generator().manual_seed(k + n)
    weight, bias, x = (torch.randn(*shape, generator=make) for shape in ((n, k), (n,), (32, k)))
    packed = linear.pack(weight / k**0.5, bias, activation, above)
    wanted = x.double() @ (weight / k**0.5).double().t() + bias.double()
    wanted = getattr(torch, activation)(wanted) if activation != "none" else wanted
    for product in (linear.rows, linear.tiled_rows):
        torch.testing.assert_close(product(x, packed).double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ["none", "tanh"])
@pytest.mark.parametrize(("k", "n"), SHAPES)
def test_a_row_in_a_tile_has_the_same_bits_whatever_is_around_it(k: int, n: int, activation: linear.Activation) -> None:
    make = torch.Generator().manual_seed(k + n)
    packed = linear.pack(torch.randn(n, k, generator=make) / k**0.5, None, activation, 0)
    x = torch.randn(48, k, generator=make)
    whole = linear.tiled_rows(x, packed)
    for threads in (1, 3):
        torch.set_num_threads(threads)
        for row in (0, 5, 15, 16, 47):
            for place in (0, 7, 15):
                alone = torch.zeros(16, k)
                alone[place] = x[row]
                assert torch.equal(linear.tiled_rows(alone, packed)[place], whole[row])


def by_element(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function to each element in a vector of its own."""
    return torch.stack([function(value.repeat(64))[0] for value in x])


def test_exp_has_the_same_bits_anywhere_and_with_any_number_of_threads() -> None:
    x = torch.randn(64 * 2000, generator=torch.Generator().manual_seed(0))
    whole = elementwise.exp_(x.clone())
    for threads in (2, 3):
        torch.set_num_threads(threads)
        assert torch.equal(elementwise.exp_(x.clone()), whole)
        assert torch.equal(elementwise.exp_(x[640:].clone()), whole[640:])
    assert torch.equal(by_element(torch.exp, x[:300]), whole[:300])


def test_blocks_need_whole_lanes() -> None:
    with pytest.raises(AssertionError, match="64"):
        elementwise.exp_(torch.zeros(65))


@pytest.mark.parametrize("vocabulary", [257, 5000])
def test_logprobs_are_right_and_the_same_bits_in_any_company(vocabulary: int) -> None:
    logits = torch.randn(40, vocabulary, generator=torch.Generator().manual_seed(2)) * 4
    rows, targets = torch.arange(40), torch.arange(40) * 5
    logps, best = logprob.target_logprobs(logits, rows, targets)
    wanted = torch.log_softmax(logits.double(), -1)[rows, targets]
    assert logps == pytest.approx(wanted.tolist(), abs=1e-6)
    assert best == (logits.argmax(-1) == targets).tolist()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        for start, end in ((0, 1), (3, 5), (7, 40)):
            part = logprob.target_logprobs(logits[start:end], torch.arange(end - start), targets[start:end])
            assert part[0] == logps[start:end]
