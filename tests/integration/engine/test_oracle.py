"""The model against the `rwkv` package (fp32, its own code), and against itself in other batches and chunkings."""

import ctypes
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from rwkv_engine.cpu.layout import lay_out
from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_weights.formats import load, synthetic
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.numerics import Numerics

pytest.importorskip("rwkv", reason="the oracle is the PyPI package rwkv")
IDS = [(i * 1103515245 + 12345) % 65529 + 1 for i in range(32)]
BUILTIN_IDS = [0, *(byte + 1 for byte in b"12+34=46\nab:1 cd:2 ef:3\ncd")]
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def one_thread_and_no_memory_kept() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    ctypes.CDLL(None).malloc_trim(0)  # of a freed model's tensors, glibc keeps those under 32 MiB: a gigabyte of 0.1B


def oracle(path: Path):
    """The package's model; it reads its switches from the environment when it is first imported."""
    os.environ.update(RWKV_V7_ON="1", RWKV_JIT_ON="0", RWKV_CUDA_ON="0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TorchScript's deprecation, and of what it says about itself
        from rwkv.model import RWKV

        return RWKV(model=str(path.with_suffix("")), strategy="cpu fp32")


def engine(path: Path, numerics: Numerics, slots: int = 40) -> tuple[Model, StatePool]:
    found = load.load(path)
    model = Model.of(found, numerics)
    return model, StatePool.allocate(found.dims, slots)


@torch.inference_mode()
def run(
    model: Model, pool: StatePool, rows: dict[int, Sequence[int]], cuts: Sequence[int] = ()
) -> dict[int, torch.Tensor]:
    """Feed each slot its ids, cut into chunks at `cuts`; the logits of every position by slot."""
    for slot in rows:
        pool.clear(slot)
    logits: dict[int, list[torch.Tensor]] = {slot: [] for slot in rows}
    longest = max(map(len, rows.values()))
    for start, end in zip([0, *cuts], [*cuts, longest], strict=True):
        part = {slot: ids[start:end] for slot, ids in rows.items() if ids[start:end]}
        layout = lay_out(list(part.values()), list(part), model.do.row_multiple)
        x = model.step(pool, layout)
        for place, i in enumerate(layout.order):
            slot = list(part)[i]
            hidden = torch.stack([x[layout.row(place, t)] for t in range(len(part[slot]))])
            logits[slot].append(model.logits(hidden))
    return {slot: torch.cat(parts) for slot, parts in logits.items()}


@torch.inference_mode()
def greedy(model: Model, pool: StatePool, prompts: dict[int, Sequence[int]], count: int) -> dict[int, list[int]]:
    rows = {slot: list(ids) for slot, ids in prompts.items()}
    for slot in rows:
        pool.clear(slot)
    out: dict[int, list[int]] = {slot: [] for slot in rows}
    for _ in range(count):
        layout = lay_out(list(rows.values()), list(rows), model.do.row_multiple)
        model.step(pool, layout)
        best = model.logits(pool.hidden[list(rows)]).argmax(-1).tolist()
        for slot, token in zip(list(rows), best, strict=True):
            out[slot].append(token)
            rows[slot] = [token]
    return out


def oracle_greedy(peer, ids: Sequence[int], count: int) -> list[int]:
    logits, state = peer.forward(list(ids), None)
    out = []
    for _ in range(count):
        out.append(int(logits.argmax()))
        logits, state = peer.forward([out[-1]], state)
    return out


def steps_of(peer, ids: Sequence[int]) -> torch.Tensor:
    """The package's logits of every position, one token at a time."""
    state, rows = None, []
    for token in ids:
        logits, state = peer.forward([token], state)
        rows.append(logits.clone())
    return torch.stack(rows)


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("oracle") / "tiny.pth"
    return synthetic.write(path, synthetic.dims_of(2, 128))


def agrees(path: Path, ids: Sequence[int], greedy_tokens: int, in_small_batches: int | None = None) -> None:
    """Logits of every position, and greedy ids, in both profiles, alone and in batches, in any chunking.

    A deep random model is ill-conditioned at its first tokens (a head's output near zero before its norm): there the
    package differs from itself, sequence against steps, by more than the bar. That one difference tells the order of
    magnitude of the doubt, on this processor; we may differ from the package by three times as much.
    """
    peer = oracle(path)
    reference, _ = peer.forward(list(ids), None, full_output=True)
    last, doubt = reference[-1], relative(steps_of(peer, ids), reference)
    wanted = oracle_greedy(peer, ids[:8], greedy_tokens)
    for numerics in ("fp32", "fast"):
        model, pool = engine(path, numerics)
        for batch in (1, 3, 16):
            companions = {slot: list(reversed(ids))[: 5 + slot] for slot in range(1, batch)}
            logits = run(model, pool, {0: ids, **companions}, cuts=(1, 7, 15) if batch != 3 else ())
            assert relative(logits[0][-1], last) <= TOLERANCE, (numerics, batch)
            assert relative(logits[0], reference) <= max(TOLERANCE, 3 * doubt), (numerics, batch)
            prompts = {slot: ids[slot % 5 : 8] if slot else ids[:8] for slot in range(batch)}
            count = greedy_tokens if batch == 16 else in_small_batches or greedy_tokens
            assert greedy(model, pool, prompts, count)[0] == wanted[:count], (numerics, batch)


def test_tiny_random(tiny: Path) -> None:
    agrees(tiny, IDS[:20], 6)


@pytest.mark.slow("oracles")
def test_tiny_random_256_tokens(tiny: Path) -> None:
    agrees(tiny, IDS, 256)


def test_builtin() -> None:
    agrees(builtin_checkpoint_path(), BUILTIN_IDS, 24)


@pytest.mark.slow("oracles")
def test_builtin_256_tokens() -> None:
    agrees(builtin_checkpoint_path(), BUILTIN_IDS, 256)


@pytest.mark.slow("oracles")
@pytest.mark.timeout(1200)  # two minutes on an idle core
def test_0_1b_random(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "x.pth", synthetic.dims_of(12, 768))
    agrees(path, IDS, 256, in_small_batches=64)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three heads, and ranks that are no multiple of a vector: shapes in which errors of remainders show."""
    path = tmp_path_factory.mktemp("odd") / "odd.pth"
    return synthetic.write(path, synthetic.dims_of(2, 192, 257, (8, 12, 20, 36)))


SLOW = pytest.mark.slow("exact")


@pytest.mark.parametrize(
    ("which", "threads"),
    [
        ("odd", 1),
        ("odd", 3),
        ("builtin", 1),
        pytest.param("builtin", 8, marks=SLOW),
        pytest.param("tiny", 1, marks=SLOW),
        pytest.param("tiny", 3, marks=SLOW),
    ],
)
def test_fp32_rows_have_the_same_bits_in_any_company(which: str, threads: int, request: pytest.FixtureRequest) -> None:
    path = builtin_checkpoint_path() if which == "builtin" else request.getfixturevalue(which)
    model, pool = engine(path, "fp32")
    ids = [i % model.dims.vocabulary for i in IDS[:23]]
    alone = run(model, pool, {0: ids})[0]
    torch.set_num_threads(threads)
    chunkings: list[tuple[int, ...]] = [(), (1,), (5, 6, 20), tuple(range(1, 23))]
    for batch, cuts in zip((1, 2, 3, 7, 16, 33), chunkings * 2, strict=False):
        rows = {slot: [(i + slot) % model.dims.vocabulary for i in ids[: 1 + (slot * 7) % 23]] for slot in range(batch)}
        for mine in {0, batch // 2, batch - 1}:
            logits = run(model, pool, {**rows, mine: ids}, cuts)[mine]
            assert torch.equal(logits, alone), (batch, mine, cuts)


def test_fp32_state_has_the_same_bits_however_it_was_fed(odd: Path) -> None:
    model, pool = engine(odd, "fp32")
    ids = [i % 257 for i in IDS]
    run(model, pool, {0: ids})
    run(model, pool, {5: ids, 9: ids[:4], 2: ids[3:]}, cuts=(3, 11))
    run(model, pool, {7: ids}, cuts=tuple(range(1, len(ids))))
    for slot in (5, 7):
        assert all(torch.equal(a, b) for a, b in zip(pool.save(0), pool.save(slot), strict=True))


def test_a_loaded_state_goes_on_as_the_saved_one(odd: Path) -> None:
    model, pool = engine(odd, "fp32")
    ids = [i % 257 for i in IDS]
    whole = run(model, pool, {0: ids})[0]
    run(model, pool, {4: ids[:10]})
    pool.load(11, pool.save(4))
    with torch.inference_mode():
        x = model.step(pool, lay_out([ids[10:]], [11], model.do.row_multiple))
        assert torch.equal(model.logits(x[: len(ids) - 10]), whole[10:])
