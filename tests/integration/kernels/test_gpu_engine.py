"""The whole GPU path (kernels, pool, sampler, a step ahead of the host): on a GPU, or in Triton's interpreter."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rwkv_engine.cpu.model import Model
from rwkv_engine.errors import OutOfMemory
from rwkv_engine.gpu import memory_plan, model, score_targets
from rwkv_engine.gpu.masks import forbid
from rwkv_engine.gpu.model import GpuModel
from rwkv_engine.gpu.pool import GpuPool
from rwkv_engine.gpu.prefill_shapes import PrefillShape, captured_shapes, shape_of
from rwkv_engine.gpu.products import LIBRARY_ROWS
from rwkv_engine.gpu.runner import GpuRunner, GpuStep
from rwkv_engine.gpu.sequence_logits import sequence_logits
from rwkv_engine.gpu.warm_up import shapes
from rwkv_engine.gpu.workspace import parts_elements, row_bytes
from rwkv_engine.scheduling.scheduler import SlotInput
from rwkv_engine.scheduling.tasks import AnyTask, Echo, GenerateTask, Result
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_engine.verify import trial
from rwkv_engine.verify.oracle import agreement, reference_logits
from rwkv_engine.verify.trial import TrialSetting
from rwkv_kernels.gpu import launch_config, wkv7_chunked
from rwkv_kernels.gpu.dependent_launch import MOST_ROWS
from rwkv_weights.formats import load, synthetic
from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import Dims
from rwkvctl.protocol.engine import Constraint, Continue, Generated, GenerateItem, Sampling, Scored, ScoreItem, Stops
from rwkvctl.protocol.numerics import NUMERICS, PROFILES, Numerics

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
COMPILER = Compiler(for_vocabulary(257))
OPEN = Stops(end_of_text=False)
HOT = Sampling(max_tokens=4, temperature=1.5)
PENALISED = Sampling(
    max_tokens=3, temperature=1.0, top_p=0.9, presence=0.4, frequency=0.2, decay=0.9, banned=("a",), unpenalised=("b",)
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    dims = synthetic.dims_of(2, 64, vocabulary=257, ranks=(16, 8, 16, 24))
    return load.load(synthetic.write(tmp_path_factory.mktemp("w") / "tiny.pth", dims))


def engines(found: Checkpoint, numerics: Numerics) -> trial.EngineFactory:
    return trial.on_gpu(GpuModel.of(found, numerics, DEVICE))


def answers(loaded: trial.EngineFactory, setting: TrialSetting, *items: trial.Item) -> list[Result]:
    found = trial.run(loaded, COMPILER, setting, items).answers
    return sorted(found, key=lambda answer: (answer.id, getattr(answer, "index", 0)))


@pytest.mark.parametrize(
    "numerics", ["fast", *(pytest.param(n, marks=pytest.mark.slow("triton")) for n in NUMERICS if n != "fast")]
)
def test_its_logits_are_those_of_plain_fp32(tiny: Checkpoint, numerics: Numerics) -> None:
    ids = [0, 5, 250, 17, 99, 3, 3, 128, 64]
    found = agreement(sequence_logits(engines(tiny, numerics), ids).cpu(), reference_logits(tiny, ids))
    assert found.relative < (5e-3 if PROFILES[numerics].half_weights else 1e-5)
    assert found.kl < (1e-4 if PROFILES[numerics].half_weights else 1e-9)


@pytest.mark.slow("triton")
def test_long_prompts_are_cut_into_chunks_where_that_is_faster(
    tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_config, "TWO_LAUNCHES_S", 0.0)
    ids = [0, *(1 + i * 37 % 250 for i in range(21))]
    used = []
    monkeypatch.setattr(model, "wkv7_chunked", lambda *args: (used.append(1), wkv7_chunked.wkv7_chunked(*args)))
    found = agreement(sequence_logits(engines(tiny, "fast"), ids).cpu(), reference_logits(tiny, ids))
    assert len(used) == tiny.dims.layers
    assert found.relative < 5e-3


def test_a_drawn_token_and_a_choice_are_those_of_the_cpu(tiny: Checkpoint) -> None:
    """The smallest run through prefill, decode, sampler and scores; the next test covers everything."""
    items = (
        GenerateItem(id="drawn", text="x", keys=(5,), sampling=Sampling(max_tokens=2, temperature=1.0), stops=OPEN),
        ScoreItem(id="choice", context="1", continuations=("46",)),
    )
    scored, drawn = answers(engines(tiny, "fp32"), TrialSetting(2, 6), *items)
    wanted, other = answers(trial.on_cpu(Model.of(tiny, "fp32")), TrialSetting(2, 6), *items)
    assert isinstance(drawn, Generated)
    assert isinstance(other, Generated)
    assert isinstance(scored, Scored)
    assert isinstance(wanted, Scored)
    assert (drawn.ids, drawn.stop) == (other.ids, other.stop)
    assert scored.scores[0].logprob == pytest.approx(wanted.scores[0].logprob, abs=1e-3)


@pytest.mark.slow("triton")
def test_it_answers_as_the_cpu_does(tiny: Checkpoint) -> None:
    """Greedy, forked with penalties, bans and biases, log-probabilities shown, choices; a step ahead of the host."""
    items = (
        GenerateItem(id="greedy", text="12+3", sampling=Sampling(max_tokens=4)),
        GenerateItem(id="forked", text="x", n=2, keys=(5, 2**63 + 7), sampling=PENALISED, stops=OPEN),
        GenerateItem(id="shown", text="yz", sampling=Sampling(max_tokens=2, logprobs=2, logit_bias=((55, 3.0),))),
        ScoreItem(id="choices", context="12+", continuations=("46", "47", "4", "5", "")),
    )
    ours = answers(engines(tiny, "fp32"), TrialSetting(4, 6), *items)
    theirs = answers(trial.on_cpu(Model.of(tiny, "fp32")), TrialSetting(4, 6), *items)
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(mine, Generated) and isinstance(other, Generated):
            assert (mine.id, mine.index, mine.ids, mine.stop) == (other.id, other.index, other.ids, other.stop)
            for a, b in zip(mine.logprobs, other.logprobs, strict=True):
                assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
                assert [token for token, _ in a.top] == [token for token, _ in b.top]
                assert (a.token, a.logprob) in a.top or a.logprob < a.top[-1][1]
        else:
            assert isinstance(mine, Scored)
            assert isinstance(other, Scored)
            for x, y in zip(mine.scores, other.scores, strict=True):
                assert (x.tokens, x.greedy) == (y.tokens, y.greedy)
                assert x.logprob == pytest.approx(y.logprob, abs=1e-3)


class HostWaits(TorchFunctionMode):
    """Refuses what makes the host wait for a GPU, where there is none to show it."""

    READS = (
        Tensor.tolist, Tensor.item, Tensor.cpu, Tensor.numpy, Tensor.nonzero, Tensor.masked_select, Tensor.__bool__,
        Tensor.__int__, Tensor.__float__, torch.nonzero, torch.masked_select,
    )  # fmt: skip

    def __torch_function__(self, func, types, args=(), kwargs=None):
        assert func not in self.READS, f"{func.__name__} waits for the device"
        if func in (Tensor.__getitem__, Tensor.__setitem__):
            places = args[1] if isinstance(args[1], tuple) else (args[1],)
            picks = [place for place in places if isinstance(place, Tensor | list)]
            assert all(isinstance(pick, Tensor) for pick in picks), "a list as an index waits for the device"
            assert not any(pick.dtype is torch.bool for pick in picks), "a mask as an index waits for the device"
            if picks and func is Tensor.__setitem__:
                assert isinstance(args[2], Tensor), "a number set by an index waits for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.slow("triton")
def test_nothing_in_a_launch_waits_for_the_device(tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples that begin, go on and start over, with bans, penalties, a constraint and shown log-probabilities; scores
    of a prompt with the likeliest tokens, and of choices."""
    pytest.importorskip("llguidance", reason="needs llguidance: not installed")
    monkeypatch.setattr(score_targets, "OPEN_ROWS", 2)
    launch, launches, failed = GpuRunner.launch, [], []

    def watched(runner: GpuRunner, inputs: Sequence[SlotInput]) -> GpuStep:
        if not failed and any(entry.decode and entry.sequence.task.id == "plain" for entry in inputs):
            failed.append(len(launches))
            raise OutOfMemory
        launches.append(len(inputs))
        with HostWaits():
            if DEVICE.type == "cuda":
                torch.cuda.set_sync_debug_mode("error")
            try:
                return launch(runner, inputs)
            finally:
                if DEVICE.type == "cuda":
                    torch.cuda.set_sync_debug_mode("default")

    def tasks(found: list[Result]) -> list[AnyTask]:
        items = (
            GenerateItem(id="plain", text="x", keys=(5,), sampling=PENALISED, stops=OPEN),
            GenerateItem(id="shown", text="y", sampling=Sampling(max_tokens=2, logprobs=2, logit_bias=((55, 3.0),))),
            GenerateItem(id="held", text="z", sampling=Sampling(max_tokens=2), constraint=Constraint(choices=("ab",))),
            ScoreItem(id="choice", context="1", continuations=("46", "4")),
        )
        echoing = COMPILER.generate(
            GenerateItem(id="echo", text="12+3=", sampling=Sampling(max_tokens=1)), found.append
        )
        echoing.echo = Echo(1, 2)
        return [echoing, *(trial.compiled(COMPILER, item, found.append) for item in items)]

    loaded, setting, plain, found = engines(tiny, "fast"), TrialSetting(3, 8), list[Result](), list[Result]()
    trial.run_tasks(loaded, setting, of_plain := tasks(plain))  # compiles the kernels
    monkeypatch.setattr(GpuRunner, "launch", watched)
    trial.run_tasks(loaded, setting, of_found := tasks(found))
    assert failed
    assert launches
    assert {answer.id: answer.error for answer in found} == dict.fromkeys(
        ("plain", "shown", "held", "choice", "echo"), ""
    )
    assert isinstance(of_found[0], GenerateTask)
    assert isinstance(of_plain[0], GenerateTask)
    assert of_found[0].scores == of_plain[0].scores
    assert [len(score.top) for _, score in sorted(of_found[0].scores.items())] == [2] * 5


@pytest.mark.parametrize(
    ("lengths", "heads", "wanted"),
    [([1024], 32, True), ([1024] * 32, 32, True), ([1024] * 4, 64, True), ([64] * 64, 12, True),
     ([4000, *[1] * 400], 32, False), ([8], 32, False), ([8] * 256, 32, False)],
)  # fmt: skip
def test_the_recurrence_runs_in_chunks_where_that_is_faster(lengths: list[int], heads: int, *, wanted: bool) -> None:
    assert launch_config.chunks_pay(sum(lengths), max(lengths), len(lengths), heads) is wanted


@given(lengths=st.lists(st.integers(1, 4096), min_size=1, max_size=300), heads=st.sampled_from([12, 32, 64]))
def test_a_step_in_chunks_allocates_no_more_than_was_planned_for_it(lengths: list[int], heads: int) -> None:
    rows = sum(lengths)
    if launch_config.chunks_pay(rows, max(lengths), len(lengths), heads):
        dims, half = synthetic.dims_of(2, 64 * heads), torch.float16
        kept = [shape for shape in captured_shapes(rows, heads, may_chunk=True) if shape.in_chunks]
        others = rows * row_bytes(dims, half) + 4 * parts_elements(dims, rows, half) + 4 * dims.vocabulary
        others += max((wkv7_chunked.room(shape.rows, shape.sequences, heads, half) for shape in kept), default=0)
        planned = memory_plan.step_bytes(dims, half, rows, 1) - others
        assert wkv7_chunked.room(rows, len(lengths), heads, half) <= planned


KernelKeys = set[tuple[object, ...]]


def kernels_of(rows: int, sequences: int, dims: Dims, *, in_chunks: bool, exact: bool) -> KernelKeys:
    """The kernels of a prefill step as far as their builds depend on its size: the recurrence, and the products."""
    found: KernelKeys = {("overlap", rows <= MOST_ROWS)}
    found |= {("in chunks", wkv7_chunked.searched(sequences)) if in_chunks else ("token by token", rows <= MOST_ROWS)}
    half, library = torch.float16, rows >= LIBRARY_ROWS and not exact
    products = [("key", dims.hidden, half, 1)]
    if not library:
        products += [
            ("output", dims.width, torch.float32, launch_config.plan(dims.width, dims.width).splits),
            ("value", dims.width, torch.float32, launch_config.plan(dims.width, dims.hidden).splits),
        ]
        products += [("r k v", 3 * dims.width, half, 1)] if rows > launch_config.JOINT_ROWS else []
    for name, n, out, splits in products:
        serial = splits > 1 and launch_config.serial_pays(n, rows)
        tile = launch_config.persistent_tile(n, rows, out, splits)
        tiles = -(-n // tile.block_n) * -(-rows // tile.block_r)
        stays = rows >= launch_config.PERSISTENT_ROWS and tiles >= launch_config.PERSISTENT_TILES
        if stays and (splits == 1 or serial):
            found.add((name, "persistent", tile))
        else:
            found.add((name, serial, launch_config.gemm_tile(n, rows, half, serial=serial), rows <= MOST_ROWS))
    return found


def step_kernels(lengths: list[int], dims: Dims, captured: set[PrefillShape], *, exact: bool) -> KernelKeys:
    """The same of a step of these sequences, padded to a captured shape if it fits one."""
    rows, count, heads = sum(lengths), len(lengths), dims.width // 64
    in_chunks = not exact and launch_config.chunks_pay(rows, max(lengths), count, heads)
    shape = shape_of(lengths, in_chunks=in_chunks)
    if shape in captured:
        rows, count = shape.rows, shape.sequences
    return kernels_of(rows, count, dims, in_chunks=in_chunks, exact=exact)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("heads", [12, 32, 64])
@pytest.mark.parametrize("slots", [32, 1024])
def test_no_step_of_a_job_needs_a_kernel_that_was_not_compiled_before(heads: int, slots: int, *, exact: bool) -> None:
    dims = synthetic.dims_of(2, 64 * heads)
    for most in memory_plan.PREFILL_TOKENS:
        captured = set(captured_shapes(most, heads, may_chunk=not exact))
        known: KernelKeys = set()
        for shape in captured:
            known |= kernels_of(shape.rows, shape.sequences, dims, in_chunks=shape.in_chunks, exact=exact)
        for sequences, tokens in shapes(most):
            known |= step_kernels([tokens] * sequences, dims, captured, exact=exact)
        for count in range(1, min(slots, most) + 1, 1 if most <= 1024 else 7):
            for rows in {most, most // 2, most * 3 // 4, 5 * count, 12 * count, 13 * count, 20 * count, 65, 200}:
                if count <= rows <= most:
                    alike = [rows // count + (i < rows % count) for i in range(count)]
                    for lengths in (alike, [rows - count + 1] + [1] * (count - 1)):
                        missing = step_kernels(lengths, dims, captured, exact=exact) - known
                        assert not missing, (most, lengths)


@pytest.mark.slow("triton")
def test_constrained_samples_are_those_of_the_cpu_beside_others_that_run_ahead(tiny: Checkpoint) -> None:
    pytest.importorskip("llguidance", reason="needs llguidance: not installed")
    barred = Sampling(max_tokens=4, temperature=1.0, banned=("b",))
    items = (
        GenerateItem(id="a", text="12", n=2, constraint=Constraint(choices=("46", "日", "4x")), sampling=HOT),
        GenerateItem(id="b", text="q", constraint=Constraint(json=True), sampling=Sampling(max_tokens=2, logprobs=1)),
        GenerateItem(id="c", text="x", keys=(2**63 + 7,), sampling=PENALISED, stops=OPEN),
        GenerateItem(id="d", text="x", constraint=Constraint(choices=("ab",)), sampling=barred),
    )
    ours = answers(engines(tiny, "fp32"), TrialSetting(3, 6), *items)
    theirs = answers(trial.on_cpu(Model.of(tiny, "fp32")), TrialSetting(3, 6), *items)
    compared_fields = [[(a.id, a.index, a.ids, a.stop, a.error) for a in found if isinstance(a, Generated)]
            for found in (ours, theirs)]  # fmt: skip
    assert compared_fields[0] == compared_fields[1]
    assert {a.text for a in ours if isinstance(a, Generated) and a.id == "a"} <= {"46", "日", "4x"}
    assert [a[4] for a in compared_fields[0] if a[0] == "d"] == ["the constraint allows only tokens that are banned"]


def test_a_mask_forbids_in_its_row_only() -> None:
    logits = torch.randn(130, 70, device=DEVICE)
    before = logits.clone()
    masks = [(row, np.array([row, 1 << 31, 5], np.uint32)) for row in range(0, 130, 2)]
    forbid(logits, masks)
    for row, mask in masks:
        bits = torch.from_numpy(np.unpackbits(mask.view(np.uint8), bitorder="little", count=70)).bool().to(DEVICE)
        assert torch.equal(logits[row].isfinite(), bits)
        assert torch.equal(logits[row][bits], before[row][bits])
    assert torch.equal(logits[1::2], before[1::2])


@pytest.mark.slow("triton")
def test_a_kept_sample_goes_on_after_its_stop_token(tiny: Checkpoint) -> None:
    """The device halts a slot that drew a stop token, though the next step was launched by then."""
    loaded = engines(tiny, "fp32")
    (free,) = answers(
        loaded, TrialSetting(1, 8), GenerateItem(id="a", text="q", sampling=Sampling(max_tokens=4), stops=OPEN)
    )
    assert isinstance(free, Generated)
    stop = COMPILER.tokenizer.token_bytes(free.ids[2]).decode("latin-1")
    if free.ids[2] in free.ids[:2] or not stop.isascii():
        pytest.skip("the drawn tokens do not suit this test")
    first = GenerateItem(id="b", text="q", sampling=Sampling(max_tokens=9), stops=Stops(tokens=(stop,)), keep=True)
    then = GenerateItem(id="c", continue_from=Continue(id="b", tail="r"), sampling=Sampling(max_tokens=2), stops=OPEN)
    again = GenerateItem(id="d", ids=(0, *COMPILER.tokenizer.encode("q"), *free.ids[:2]), tail="r",
                         sampling=Sampling(max_tokens=2), stops=OPEN)  # fmt: skip
    kept, gone_on, whole = answers(loaded, TrialSetting(1, 8, cached=True), first, then, again)
    assert isinstance(kept, Generated)
    assert isinstance(gone_on, Generated)
    assert isinstance(whole, Generated)
    assert (kept.ids, kept.stop) == (free.ids[:2], "stop_token")
    assert gone_on.usage.cached == len(kept.prompt_ids) + 2
    assert gone_on.ids == whole.ids


@pytest.mark.slow("triton")
@pytest.mark.usefixtures("ordered_dot")
@pytest.mark.parametrize("numerics", ["exact", "exact-fp16-state"])
def test_bits_do_not_depend_on_batch_or_chunking(tiny: Checkpoint, numerics: Numerics) -> None:
    """A few settings on tiny shapes; tests/integration/engine/test_exact.py goes through all of them on a GPU."""
    loaded = engines(tiny, numerics)
    asked = (
        ScoreItem(id="scored", context="abcdefg", continuations=("hi", "j")),
        GenerateItem(id="shown", text="uvw", sampling=Sampling(max_tokens=2, logprobs=1)),
    )
    other = GenerateItem(id="other", text="rst", n=2, sampling=PENALISED, stops=OPEN)
    alone = answers(loaded, TrialSetting(1, 64), *asked)
    among = answers(loaded, TrialSetting(4, 3), other, *asked)
    assert [answer for answer in among if answer.id != "other"] == alone


@pytest.mark.slow("triton")
@pytest.mark.usefixtures("ordered_dot")
def test_split_sums_have_the_same_bits_side_by_side_and_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of the two runs depends on the number of rows, so an exact profile rests on it."""
    dims = synthetic.dims_of(1, 384, vocabulary=257, ranks=(16, 8, 16, 24))
    assert launch_config.plan(384, 384).splits > 1
    loaded = engines(load.load(synthetic.write(tmp_path / "x.pth", dims)), "exact")
    logits = []
    for serial in (False, True):
        monkeypatch.setattr(launch_config, "serial_pays", lambda *_, serial=serial: serial)
        logits.append(sequence_logits(loaded, [5, 6, 7]).cpu())
    assert torch.equal(*logits)


def test_a_state_spilled_to_the_host_comes_back_bit_for_bit() -> None:
    pool = GpuPool.allocate(synthetic.dims_of(2, 64, vocabulary=257), 2, DEVICE, torch.float16)
    for tensor in (pool.wkv, pool.shift, pool.hidden):
        tensor.normal_()
    before = [tensor[0].clone() for tensor in (pool.wkv, pool.shift, pool.hidden)]
    spilled = pool.spill(pool.save(0))
    pool.clear(0)
    assert not pool.wkv[0].any()
    pool.load(1, spilled)
    assert all(
        torch.equal(tensor[1], old) for tensor, old in zip((pool.wkv, pool.shift, pool.hidden), before, strict=True)
    )
    assert pool.size_bytes == sum(tensor.nbytes for tensor in before)


@pytest.mark.parametrize(
    ("layers", "width", "gib", "slots"), [(12, 768, 8, 1024), (32, 4096, 24, 128), (32, 4096, 141, 1024)]
)
def test_memory_is_planned_within_what_there_is(layers: int, width: int, gib: int, slots: int) -> None:
    dims, available = synthetic.dims_of(layers, width), gib * memory_plan.GIB
    plan = memory_plan.plan(dims, torch.float16, torch.float32, available, ledger=8192)
    assert plan.slots == slots
    parts = (plan.weights_bytes, plan.pool_bytes, plan.workspace_bytes, plan.cache_bytes, memory_plan.RUNTIME_BYTES)
    assert min(parts) > 0
    assert sum(parts) <= available
    half = memory_plan.plan(dims, torch.float16, torch.float16, available, ledger=8192)
    assert half.slots >= plan.slots
    assert half.cache_bytes > plan.cache_bytes or half.slots > plan.slots


def test_a_model_that_does_not_fit_is_refused_with_what_it_takes() -> None:
    dims = synthetic.dims_of(32, 4096)
    with pytest.raises(OutOfMemory, match=r"needs at least 14\.\d GiB for 1 slots, and 8\.0 GiB are free"):
        memory_plan.plan(dims, torch.float16, torch.float32, 8 * memory_plan.GIB, ledger=8192)
    asked = memory_plan.plan(dims, torch.float16, torch.float32, 24 * memory_plan.GIB, ledger=8192, slots=5)
    assert asked.slots == 5
    assert memory_plan.buckets(5) == [1, 2, 4, 5]
