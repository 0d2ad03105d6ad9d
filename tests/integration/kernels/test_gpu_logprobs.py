"""Log-probabilities of targets against plain torch and the CPU's, and a row's bits in other batches."""

import pytest
import torch
from torch import Tensor

from rwkv_kernels import logprob
from rwkv_kernels.gpu import logprobs

KINDS = [(torch.float16, 2e-3), (torch.float32, 1e-5)]


def random(*shape: int, dtype: torch.dtype, device: str, seed: int) -> Tensor:
    """Normal numbers of a fixed seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def score(hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Run target_logprobs with outputs that were filled with NaN."""
    out = torch.full(targets.shape, torch.nan, device=hidden.device)
    best = torch.full(targets.shape[:1], -7, dtype=torch.int32, device=hidden.device)
    partials = logprobs.Partials.allocate(len(hidden) + 3, len(head), hidden.dtype, hidden.device)
    for poison in (partials.top, partials.total):
        poison.fill_(torch.nan)
    logprobs.target_logprobs(hidden, head, targets, out, best, partials)
    return out, best


def given(rows: int, many: int, vocabulary: int, device: str) -> Tensor:
    """Targets with gaps, the first and last ids among them."""
    targets = torch.randint(vocabulary, (rows, many), generator=torch.Generator().manual_seed(8))
    targets[0, 0], targets[-1, -1] = vocabulary - 1, 0
    targets[rows // 2, many // 2] = -1
    return targets.to(device)


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
@pytest.mark.parametrize(
    ("rows", "many", "vocabulary", "width"),
    [
        (3, 2, 257, 128),
        *(pytest.param(*sizes, marks=pytest.mark.slow("triton")) for sizes in ((18, 1, 1000, 96), (40, 3, 128, 64))),
    ],
)
def test_they_are_the_log_softmax(
    rows: int, many: int, vocabulary: int, width: int, dtype: torch.dtype, tolerance: float, device: str
) -> None:
    hidden = random(rows, width, dtype=dtype, device=device, seed=1)
    head = random(vocabulary, width, dtype=dtype, device=device, seed=2) / width**0.5
    targets = given(rows, many, vocabulary, device)
    got, best = score(hidden, head, targets)
    wanted, wanted_best = logprobs.reference(hidden, head, targets)
    assert (got - wanted).norm() < tolerance * wanted.norm()
    assert torch.equal(best, wanted_best)
    assert (got[targets < 0] == 0).all()


def test_they_are_the_cpu_s(device: str) -> None:
    hidden, head = (random(n, 64, dtype=torch.float32, device=device, seed=n) for n in (4, 300))
    targets = given(4, 1, 300, device)
    targets[2] = 17
    got, best = score(hidden, head, targets)
    wanted, likeliest = logprob.target_logprobs((hidden @ head.T).cpu(), torch.arange(4), targets[:, 0].cpu())
    assert got[:, 0].tolist() == pytest.approx(wanted, rel=1e-5)
    assert (best == targets[:, 0]).tolist() == likeliest


def test_of_equal_logits_the_lowest_id_is_the_best(device: str) -> None:
    """Within a tile and across tiles."""
    hidden = torch.ones(2, 64, dtype=torch.float16, device=device)
    head = torch.zeros(400, 64, dtype=torch.float16, device=device)
    head[[33, 70, 300]] = 0.25
    got, best = score(hidden, head, torch.tensor([[300], [5]], device=device))
    assert best.tolist() == [33, 33]
    assert got[:, 0].tolist() == pytest.approx([-1.09863, -17.09863], rel=1e-5)  # log(3 + 397 exp(-16))
    head[[33, 70]] = 0.0
    assert score(hidden, head, torch.tensor([[300], [5]], device=device))[1].tolist() == [300, 300]


@pytest.mark.slow("triton")
@pytest.mark.usefixtures("ordered_dot")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_row_has_the_same_bits_in_any_batch(dtype: torch.dtype, device: str) -> None:
    vocabulary, width = (65536, 1024) if device == "cuda" else (130, 96)
    hidden = random(140, width, dtype=dtype, device=device, seed=3)
    head = random(vocabulary, width, dtype=dtype, device=device, seed=4) / width**0.5
    targets = torch.randint(vocabulary, (140, 2), generator=torch.Generator().manual_seed(5)).to(device)
    alone, _ = score(hidden[:1], head, targets[:1])
    for rows in (1, 2, 3, 7, 16, 33, 70, 140) if device == "cuda" else (2, 7, 33, 66):
        place = rows // 2
        batch = hidden[:rows].roll(place, 0), head, targets[:rows].roll(place, 0)
        assert torch.equal(score(*batch)[0][place], alone[0]), rows
