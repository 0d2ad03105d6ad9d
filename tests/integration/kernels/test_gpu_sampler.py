"""The GPU's sampler against the CPU's: ids, log-probabilities, the ledger of costs; and what a row depends on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rwkv_kernels import sampling
from rwkv_kernels.draw import Costs, Draw
from rwkv_kernels.gpu import launch_config, sampler
from rwkv_kernels.gpu.slot_draws import SlotDraws
from rwkv_kernels.philox import uniforms


@dataclass
class Drawn:
    """The results of one call of the sampler."""

    ids: list[int]
    logprobs: list[float]
    logits: Tensor
    draws: SlotDraws


@dataclass
class Penalty:
    """The penalties of one slot."""

    presence: float = 0.0
    frequency: float = 0.0
    decay: float = 1.0
    spared: Sequence[int] = field(default_factory=tuple)


def seat(draws: SlotDraws, slot: int, draw: Draw, penalty: Penalty, stops: Sequence[int] = ()) -> None:
    """Write one slot as the engine does. Bans are biases of -inf."""
    for name in ("temperature", "top_k", "top_p", "position"):
        getattr(draws, name)[slot] = getattr(draw, name)
    draws.key[slot] = draw.key - 2**64 if draw.key >= 2**63 else draw.key
    for name in ("presence", "frequency", "decay"):
        getattr(draws, name)[slot] = getattr(penalty, name)
    biases = {} if draw.bias is None else dict(zip(draw.bias[0].tolist(), draw.bias[1].tolist(), strict=True))
    biases |= {} if draw.banned is None else dict.fromkeys(draw.banned.tolist(), -math.inf)
    fill(draws.bias_ids, draws.bias_count, slot, list(biases))
    fill(draws.bias, draws.bias_count, slot, list(biases.values()))
    fill(draws.spared, draws.spared_count, slot, penalty.spared)
    fill(draws.stops, draws.stop_count, slot, stops)


def fill(values: Tensor, count: Tensor, slot: int, given: Sequence[float]) -> None:
    values[slot, : len(given)] = torch.tensor(given, dtype=values.dtype)
    count[slot] = len(given)


def run(logits: Tensor, slots: Sequence[int], draws: SlotDraws) -> Drawn:
    """Draw with outputs that were filled with invalid values."""
    device = draws.token.device
    changed = logits.to(device, copy=True)
    ids = torch.full((len(slots),), -7, dtype=torch.int64, device=device)
    logprobs = torch.full((len(slots),), torch.nan, device=device)
    sampler.sample(changed, torch.tensor(slots, dtype=torch.int32, device=device), draws, ids, logprobs)
    return Drawn(ids.tolist(), logprobs.tolist(), changed, draws)


def seated(device: str, rows: Sequence[Draw], vocabulary: int) -> SlotDraws:
    """Row i sits in slot i; the last slot is the scratch slot."""
    draws = SlotDraws.allocate(len(rows) + 1, device, vocabulary, 40)
    for slot, draw in enumerate(rows):
        seat(draws, slot, draw, Penalty())
    return draws


def near_a_step(logits: Tensor, draw: Draw) -> bool:
    """Whether rounding may decide: the uniform lies on a step of the CDF, or the nucleus ends on one."""
    ordered, ids = torch.sort(logits.double(), descending=True, stable=True)
    shares = torch.softmax(ordered / draw.temperature, 0)
    better = shares.cumsum(0) - shares
    if draw.top_p < 1 and float((better - draw.top_p).abs().min()) < 1e-5:
        return True
    kept = torch.ones_like(shares, dtype=torch.bool) if draw.top_p >= 1 else better < draw.top_p
    kept[draw.top_k or len(shares) :] = False
    by_id = torch.zeros_like(shares).scatter(0, ids[kept], shares[kept])
    point = float(uniforms([draw.key], [draw.position])[0])
    return float((by_id.cumsum(0) / by_id.sum() - point).abs().min()) < 1e-5


def check(logits: Tensor, rows: Sequence[Draw], device: str) -> list[int]:
    """Return the GPU's ids after checking that they and their log-probabilities are the CPU's."""
    got = run(logits, range(len(rows)), seated(device, rows, logits.shape[1]))
    adjusted = logits.clone()
    ids, logprobs = sampler.reference(adjusted, rows)
    for row, draw in enumerate(rows):
        if got.ids[row] == ids[row]:
            assert got.logprobs[row] == pytest.approx(logprobs[row], rel=1e-5, abs=2e-6)
        else:
            assert not draw.greedy, (got.ids[row], ids[row])
            assert near_a_step(adjusted[row], draw), (draw, got.ids[row], ids[row])
    return got.ids


draws = st.builds(
    Draw,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 2, 5, 50, 1000]),
    top_p=st.sampled_from([0.0, 0.05, 0.3, 0.75, 0.9, 0.999, 1.0]),
    key=st.integers(0, 2**64 - 1),
    position=st.integers(1, 2**40),
)


@pytest.mark.slow("triton")
@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(draws, min_size=1, max_size=2), spread=st.sampled_from([0.1, 1.0, 4.0]), seed=st.integers(0, 10_000)
)
def test_it_draws_what_the_cpu_draws(rows: list[Draw], spread: float, seed: int, device: str) -> None:
    logits = torch.randn(len(rows), 257, generator=torch.Generator().manual_seed(seed)) * spread
    check(logits, rows, device)


@pytest.mark.slow("triton")
@pytest.mark.parametrize("spread", [0.01, 3.0])
def test_a_larger_vocabulary(spread: float, device: str) -> None:
    """Of 4096 nearly equal logits more than 2048 stay: the search runs over the row itself."""
    rows = [Draw(1.0, 0, 0.9, 11, 1), Draw(0.7, 3000, 1.0, 12, 2), Draw(1.0, 0, 1.0, 13, 3), Draw(1.5, 40, 0.5, 14, 4)]
    logits = torch.randn(len(rows), 4096, generator=torch.Generator().manual_seed(1)) * spread
    check(logits, rows, device)


@pytest.mark.parametrize("vocabulary", [257, pytest.param(4096, marks=pytest.mark.slow("triton"))])
def test_equal_logits_are_ordered_by_id(vocabulary: int, device: str) -> None:
    """Of 4096 equals more stand on the threshold than the short search takes."""
    logits = torch.zeros(1, vocabulary)
    logits[0, 3] = -0.0
    logits[0, 7] = 1e-3
    rows = [Draw(), Draw(1.0, top_k=4, key=1), Draw(1.0, top_p=(vocabulary // 2 + 0.5) / vocabulary)]
    drawn = check(logits.repeat(3, 1), rows, device)
    assert drawn[0] == 7
    assert drawn[1] in {0, 1, 2, 7}


def test_bans_and_biases(device: str) -> None:
    logits = torch.randn(3, 257, generator=torch.Generator().manual_seed(3))
    best = logits.argmax(1).numpy()
    rows = [
        Draw(banned=best[:1]),
        Draw(1.0, top_k=5, key=4, banned=best[1:2]),
        Draw(0.5, top_p=0.9, key=5, bias=(np.array([9, 200]), np.array([8.0, -3.0], np.float32))),
    ]
    check(logits, rows, device)
    logits[:] = 0.0
    only = Draw(1.0, top_p=0.9, key=6, banned=np.arange(256))
    assert run(logits[:1], [0], seated(device, [only], 257)).ids == [256]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_without_a_finite_maximum_gives_no_token_and_changes_nothing(bad: float, device: str) -> None:
    logits = torch.full((2, 257), -math.inf)
    logits[0, 40] = bad
    logits[0, 41:] = 1.0 if bad != -math.inf else bad
    logits[1] = 0.0
    rows = [Draw(1.0, position=5), Draw(position=5)]
    got = run(logits, [0, 1], seated(device, rows, 257))
    assert got.ids == [-1, 0]
    assert math.isnan(got.logprobs[0])
    assert got.draws.position.tolist() == [5, 6, 0]
    assert got.draws.halted.tolist() == [0, 0, 0]


@pytest.mark.slow("triton")
def test_a_row_depends_on_itself_alone(device: str) -> None:
    """Alone or in a batch, in any slot and place, beside padding: the same id and the same bits."""
    rows = [Draw(0.8, 0, 0.9, 5, 1), Draw(), Draw(1.2, 30, 0.99, 6, 2), Draw(1.0, key=7, position=3)]
    logits = torch.randn(len(rows), 300, generator=torch.Generator().manual_seed(9)) * 2
    scratch = 9
    batch = SlotDraws.allocate(scratch + 1, device, 300, 8)
    for row, draw in enumerate(rows):
        seat(batch, 2 * row + 1, draw, Penalty())
    padded = torch.cat((logits[:1] * 0, logits.flip(0), logits[:2] * 0))
    slots = [scratch, *(2 * row + 1 for row in reversed(range(len(rows)))), scratch, scratch]
    together = run(padded, slots, batch)
    for row, draw in enumerate(rows):
        alone = run(logits[row : row + 1], [0], seated(device, [draw], 300))
        place = len(rows) - row
        assert (together.ids[place], together.logprobs[place]) == (alone.ids[0], alone.logprobs[0])
    assert together.ids[-2:] == [-7, -7]  # nobody reads a padding row
    assert int(batch.position[scratch]) == int(batch.token[scratch]) == 0


def test_the_next_step_feeds_what_was_drawn_and_halted_slots_go_to_the_scratch_slot(device: str) -> None:
    """More rows than one program takes; a slot whose draw failed is fed token 0."""
    draws = SlotDraws.allocate(50, device, 257, 8)
    draws.token.copy_(torch.arange(50) + 100)
    draws.token[3] = -1
    draws.halted[[7, 40]] = 1
    slots = torch.tensor([7, 3, *range(10, 45), 0], dtype=torch.int32, device=device)
    live, ids = torch.full_like(slots, -5), torch.full((38,), -5, device=device)
    sampler.next_rows(slots, draws, live, ids)
    wanted = [49, 3, *(49 if slot == 40 else slot for slot in range(10, 45)), 0]
    assert live.tolist() == wanted
    assert ids.tolist() == [0 if slot == 3 else slot + 100 for slot in wanted]


@pytest.mark.slow("triton")
def test_frequencies_follow_the_softmax(device: str) -> None:
    many = 2000 if device == "cuda" else 40
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]])
    rows = [Draw(1.0, key=9, position=i) for i in range(many)]
    ids = run(logits.repeat(many, 1), range(many), seated(device, rows, 4)).ids
    wanted = many * torch.softmax(logits[0].double(), 0)
    chi2 = float(((torch.bincount(torch.tensor(ids), minlength=4) - wanted) ** 2 / wanted).sum())
    assert chi2 < 16.3  # 3 degrees of freedom, p = 0.001


@pytest.mark.parametrize(
    "penalty",
    [
        Penalty(0.5, 0.25, 0.9, (3,)),
        *(
            pytest.param(one, marks=pytest.mark.slow("triton"))
            for one in (Penalty(0.0, 0.7, 1.0), Penalty(1.0, 0.0, 0.0))
        ),
    ],
)
def test_the_ledger_follows_the_cpu_token_by_token(penalty: Penalty, device: str) -> None:
    """A dozen tokens of a tiny vocabulary: every cost, every logit after it and every id as on the CPU."""
    costs = Costs(penalty.presence, penalty.frequency, penalty.decay, frozenset(penalty.spared))
    draws = SlotDraws.allocate(3, device, 6, 8)
    seat(draws, 1, Draw(1.0, key=77), penalty)
    draws.ledger_used[1] = 5  # what an earlier sequence left behind
    draws.ledger_costs[1] = 99.0
    for position in range(12):
        logits = torch.randn(1, 6, generator=torch.Generator().manual_seed(position))
        got = run(logits, [1], draws)
        adjusted = logits.clone()
        wanted = sampling.sample(adjusted, [Draw(1.0, key=77, position=position, costs=costs.current())])
        assert torch.equal(got.logits.cpu(), adjusted)
        assert got.ids == wanted
        costs.add(wanted[0])
        used = int(draws.ledger_used[1])
        ids, values = costs.current() or (np.empty(0), np.empty(0))
        assert draws.ledger_ids[1, :used].tolist() == ids.tolist()
        assert draws.ledger_costs[1, :used].tolist() == values.tolist()
    assert draws.position.tolist() == [0, 12, 0]
    assert draws.token[1] == wanted[0]


def test_a_full_ledger_forgets_what_is_beyond(device: str) -> None:
    draws = SlotDraws.allocate(2, device, 20, 3)
    seat(draws, 0, Draw(), Penalty(presence=1.0))
    for token in (5, 6, 5, 7, 8, 9):
        logits = torch.zeros(1, 20)
        logits[0, token] = 9.0
        assert run(logits, [0], draws).ids == [token]
    assert draws.ledger_ids[0].tolist() == [5, 6, 7]
    assert draws.ledger_used[0] == 3


def test_a_stop_token_halts_a_slot_until_a_new_sequence_takes_it(device: str) -> None:
    draws = seated(device, [Draw(), Draw()], 20)
    seat(draws, 0, Draw(), Penalty(), stops=(3, 11))
    halts = []
    for token in (5, 11, 5):
        logits = torch.zeros(2, 20)
        logits[:, token] = 1.0
        run(logits, [0, 1], draws)
        halts.append(draws.halted.tolist())
    draws.position[0] = 0
    run(logits, [0, 1], draws)
    assert [*halts, draws.halted.tolist()] == [[0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("top", [3000.0, 1e9, 1e30])
def test_no_token_without_mass_is_drawn_beside_a_huge_logit(top: float, device: str) -> None:
    """Where the least mass that counts is nearer to the best logit than the next number, the best one is drawn."""
    logits = torch.randn(3, 300, generator=torch.Generator().manual_seed(4)) * 3
    logits[:, 100] = top
    rows = [Draw(1.0, 0, 0.9, 1), Draw(1e-5, 0, 0.9, 2), Draw(1.0, 5, 0.5, 3)]
    assert check(logits, rows, device) == [100, 100, 100]
    even = torch.full((1, 300), -top)
    assert run(even, [0], seated(device, [Draw(1.0, 0, 0.5, 7)], 300)).ids[0] in range(150)


def test_a_ban_holds_for_a_logit_that_is_no_number(device: str) -> None:
    logits = torch.zeros(2, 300)
    logits[0, 7], logits[1, 7] = math.nan, math.inf
    check(logits, [Draw(banned=np.array([7])), Draw(1.0, 0, 0.5, 8, banned=np.array([7]))], device)


@triton.jit
def uniform_kernel(keys, positions, out):
    at = tl.program_id(0)
    tl.store(out + at, sampler._uniform(tl.load(keys + at), tl.load(positions + at)))


def test_the_uniform_is_the_cpu_s_to_the_last_bit(device: str) -> None:
    keys = [0, 1, 2**64 - 1, 0x123456789ABCDEF0, 2**63]
    positions = [0, 2**32 - 1, 2**40 + 3, 17, 1]
    out = torch.full((5,), torch.nan, dtype=torch.float64, device=device)
    signed = torch.tensor([key - 2**64 if key >= 2**63 else key for key in keys], device=device)
    uniform_kernel[(5,)](signed, torch.tensor(positions, device=device), out)
    assert out.tolist() == uniforms(keys, positions).tolist()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the whole vocabulary")
def test_the_whole_vocabulary(device: str) -> None:
    kinds = [Draw(1.0, 0, 0.5), Draw(0.8, 50, 0.9), Draw(1.0), Draw(), Draw(2.0, 0, 0.95), Draw(1.0, 500, 1.0)]
    rows = [Draw(kind.temperature, kind.top_k, kind.top_p, key, 3) for key in range(20) for kind in kinds]
    for spread in (1.0, 3.0):
        check(torch.randn(len(rows), 65536, generator=torch.Generator().manual_seed(2)) * spread, rows, device)


@pytest.mark.slow("triton")
def test_the_search_runs_on_few_candidates(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for few candidates (256, of 8 lanes) all ways of searching are taken: few lanes, few candidates in many
    lanes, and the row itself."""
    monkeypatch.setattr(launch_config, "SAMPLER_SIZES", {"BLOCK": 256, "WIDE": 512, "SHORT": 64})
    rows = [Draw(0.3, 0, 0.5, 22), Draw(1.0, 0, 0.4, 23), Draw(1.0, 60, 1.0, 24), Draw(2.0, 0, 0.9, 25),
            Draw(1.5, 700, 1.0, 26), Draw(1.5, 700, 0.99, 27)]  # fmt: skip
    check(torch.randn(6, 1500, generator=torch.Generator().manual_seed(5)) * 2, rows, device)
