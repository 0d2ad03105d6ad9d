"""Prompts padded to the shapes of graphs; in Triton's interpreter the same padded steps, called directly."""

from collections.abc import Sequence
from dataclasses import fields

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rwkv_engine.gpu import graphs, memory_plan, prefill
from rwkv_engine.gpu.model import GpuModel
from rwkv_engine.gpu.pool import GpuPool
from rwkv_engine.gpu.prefill import Prefill
from rwkv_engine.gpu.prefill_shapes import ROWS, PrefillShape, captured_shapes, shape_of
from rwkv_engine.gpu.sequence_rows import SlotTokens, numbers_of, of_sequences, pack, unpack
from rwkv_engine.gpu.workspace import Workspace, parts_elements, row_bytes
from rwkv_kernels.gpu import launch_config, wkv7_chunked
from rwkv_kernels.gpu.row_layout import FIRST
from rwkv_weights.formats import load, synthetic
from rwkv_weights.formats.load import Checkpoint
from rwkvctl.protocol.numerics import Numerics

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CPU = torch.device("cpu")
SLOTS, ROOM = 4, 32
LENGTHS = st.lists(st.integers(1, 600), min_size=1, max_size=300)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    dims = synthetic.dims_of(2, 64, vocabulary=257, ranks=(16, 8, 16, 24))
    return load.load(synthetic.write(tmp_path_factory.mktemp("w") / "tiny.pth", dims))


def over_random_states(found: Checkpoint, numerics: Numerics) -> Prefill:
    """Return a prefill part whose workspace is full of NaN: what no kernel writes must reach no result."""
    model = GpuModel.of(found, numerics, DEVICE)
    pool = GpuPool.allocate(found.dims, SLOTS, DEVICE, model.state_dtype)
    draw = torch.Generator().manual_seed(3)
    for tensor in (pool.wkv, pool.shift, pool.hidden):
        tensor.copy_(torch.randn(tensor.shape, generator=draw))
        tensor[pool.scratch] = torch.nan
    space = Workspace.allocate(found.dims, ROOM, model.dtype, DEVICE)
    for name in fields(space):
        getattr(space, name.name).fill_(torch.nan)
    return Prefill(model, pool, space)


def results(part: Prefill, sequences: Sequence[SlotTokens]) -> list[torch.Tensor]:
    """Feed the sequences. Returns the residuals, and the states of all slots but the scratch slot."""
    with torch.inference_mode():
        residual = part.feed(sequences).clone()
    return [residual, *(tensor[:SLOTS].clone() for tensor in (part.pool.wkv, part.pool.shift, part.pool.hidden))]


def no_other_way(*_: object, **__: object) -> None:
    raise AssertionError("the step was not padded")


CASES = [[1], [3, 1, 5], [1, 1, 1, 1], [16], [9, 8]]
CHUNKED = [[17], [32], [17, 15], [18, 12]]


@pytest.mark.slow("triton")
@pytest.mark.usefixtures("ordered_dot")
@pytest.mark.parametrize(
    ("numerics", "in_chunks", "lengths"),
    [("exact", False, lengths) for lengths in CASES] + [("fast", True, lengths) for lengths in CHUNKED],
)
def test_a_padded_step_has_the_bits_of_the_step_itself(
    tiny: Checkpoint, numerics: Numerics, lengths: list[int], monkeypatch: pytest.MonkeyPatch, *, in_chunks: bool
) -> None:
    monkeypatch.setattr(launch_config, "chunks_pay", lambda *_: in_chunks)
    sequences = [(slot, [7 + 5 * slot + i for i in range(count)]) for slot, count in enumerate(lengths)]
    wanted = results(over_random_states(tiny, numerics), sequences)
    padded = over_random_states(tiny, numerics)
    padded.capture(ROOM)
    assert shape_of(lengths, in_chunks=in_chunks) in padded.shapes
    monkeypatch.setattr(prefill, "of_sequences", no_other_way)
    found = results(padded, sequences)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, wanted, strict=True))
    assert not any(tensor.isnan().any() for tensor in found)


def test_steps_too_large_for_a_graph_are_launched_kernel_by_kernel(tiny: Checkpoint) -> None:
    padded = over_random_states(tiny, "fp32")
    padded.capture(ROOM - 1)
    assert {shape.rows for shape in padded.shapes} == {16}
    assert shape_of([17], in_chunks=False) not in padded.shapes


@given(lengths=LENGTHS, in_chunks=st.booleans())
def test_a_step_has_the_smallest_shape_that_it_fits(lengths: list[int], *, in_chunks: bool) -> None:
    found = shape_of(lengths, in_chunks=in_chunks)
    fitting = [
        shape
        for shape in (PrefillShape(rows, in_chunks) for rows in ROWS)
        if sum(lengths) <= shape.rows and len(lengths) <= shape.sequences
    ]
    assert found == min(fitting, key=lambda shape: shape.rows, default=None)


@given(lengths=LENGTHS, heads=st.sampled_from([12, 32, 64]), may_chunk=st.booleans())
def test_only_steps_of_many_rows_or_very_many_sequences_have_no_graph(
    lengths: list[int], heads: int, *, may_chunk: bool
) -> None:
    rows = sum(lengths)
    in_chunks = may_chunk and launch_config.chunks_pay(rows, max(lengths), len(lengths), heads)
    captured = set(captured_shapes(8192, heads, may_chunk=may_chunk))
    if rows <= (512 if heads == 64 else 1024) and len(lengths) <= 64:
        assert shape_of(lengths, in_chunks=in_chunks) in captured


@given(lengths=LENGTHS, rows=st.integers(0, 100), sequences=st.integers(0, 9))
def test_what_is_packed_with_padding_is_what_is_packed_without_and_rows_of_nothing(
    lengths: list[int], rows: int, sequences: int
) -> None:
    fed = [(slot % 7, range(slot, slot + count)) for slot, count in enumerate(lengths)]
    total, count = sum(lengths), len(lengths)
    plain, ids = of_sequences(fed, CPU)
    packed = pack(fed, total + rows, count + sequences, 99)
    assert len(packed) == numbers_of(total + rows, count + sequences)
    padded, padded_ids = unpack(packed, total + rows, count + sequences)
    assert torch.equal(padded_ids[:total], ids)
    for name in ("row_slot", "edge"):
        assert torch.equal(getattr(padded, name)[:total], getattr(plain, name))
    assert torch.equal(padded.starts[: count + 1], plain.starts)
    assert torch.equal(padded.slots[:count], plain.slots)
    assert padded.starts[count:].tolist() == [total] * (sequences + 1)
    assert padded.slots[count:].tolist() == [99] * sequences
    assert padded.row_slot[total:].tolist() == [99] * rows
    assert padded.edge[total:].tolist() == [FIRST] * rows
    assert all(tensor.data_ptr() % 16 == packed.data_ptr() % 16 for tensor in (padded.row_slot, padded.starts))


def test_memory_that_runs_out_in_a_capture_is_known_behind_the_error_of_the_capture() -> None:
    def captured(inner: Exception) -> None:
        try:
            raise inner
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    no_memory = torch.OutOfMemoryError("no memory")
    for inner, wanted in ((no_memory, no_memory), (ValueError("a bug"), None)):
        with pytest.raises(RuntimeError, match="during capture") as found:
            captured(inner)
        assert graphs.out_of_memory(found.value) is wanted


@given(rows=st.integers(16, 9000), heads=st.sampled_from([12, 32, 64]))
def test_graphs_of_prompts_are_planned_for(rows: int, heads: int) -> None:
    """A graph keeps the plans of its chunks beside what the largest step allocates."""
    dims, half = synthetic.dims_of(2, 64 * heads), torch.float16
    kept = [
        wkv7_chunked.room(shape.rows, shape.sequences, heads, half)
        for shape in captured_shapes(rows, heads, may_chunk=True)
        if shape.in_chunks
    ]
    at_once = wkv7_chunked.room(rows, rows // launch_config.CHUNKED_MIN_TOKENS, heads, half)
    workspace = rows * row_bytes(dims, half) + 4 * parts_elements(dims, rows, half)
    assert memory_plan.step_bytes(dims, half, rows, 0) >= at_once + max(kept, default=0) + workspace
    assert kept or rows < 32
