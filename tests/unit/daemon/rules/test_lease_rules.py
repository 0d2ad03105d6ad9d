"""Which lease an engine fits, which leases have room, what locks them, and what a last look may say."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.engines.engine_processes import on_other_device
from rwkv_daemon.rules.gpu_facts import Gpu, GpuReading
from rwkv_daemon.rules.memory_fit import (
    GIB,
    SLOTS,
    FreeLease,
    best_lease,
    fits_anywhere,
    least_bytes,
    memory_bytes,
    next_smaller,
    slots_needed,
    taken,
)
from rwkv_daemon.rules.scale_out import Outlook, pays
from rwkv_daemon.scheduling import leases
from rwkv_daemon.scheduling.engine_assignment import EngineMember, chosen
from rwkv_daemon.scheduling.lease_memory import last_look
from rwkvctl.protocol.views import LeaseView

ALL = tuple(range(SLOTS))


def gpu(number: int, use: str = "free", condition: str = "ok", **others: object) -> LeaseView:
    return LeaseView(id=f"GPU-{number}", index=str(number), name="H100", use=use, condition=condition, **others)  # type: ignore[arg-type]


CPU = LeaseView(id="cpu:0", name="CPU")


# -- memory


def test_the_least_memory_is_a_bound_from_below() -> None:
    assert least_bytes(0, "fast") == 0, "nothing is known of the file"
    assert least_bytes(14 * GIB, "fast") == 8 * GIB, "the file may hold 32 bits a number"
    assert least_bytes(14 * GIB, "fp32") == 15 * GIB
    assert least_bytes(14 * GIB, "fast", learned_bytes=20 * GIB) == 20 * GIB


@pytest.mark.parametrize(
    ("need", "lease", "share", "slots"),
    [
        (0, 0, 1, SLOTS),
        (10 * GIB, 80 * GIB, 1, SLOTS),
        (80 * GIB, 80 * GIB, 1, SLOTS),
        (81 * GIB, 80 * GIB, 1, None),
        (1 * GIB, 80 * GIB, 2, 4),
        (1 * GIB, 80 * GIB, 8, 1),
        (1 * GIB, 80 * GIB, 100, 1),
        (9 * GIB, 80 * GIB, 8, 1),
        (10 * GIB, 80 * GIB, 8, 2),  # with the margin a little over an eighth
        (79 * GIB, 80 * GIB, 8, SLOTS),
        (10 * GIB, 0, 8, SLOTS),  # nothing is shared of which nobody knows the size
    ],
)
def test_parts_of_a_lease_by_need_and_share(need: int, lease: int, share: int, slots: int | None) -> None:
    assert slots_needed(need, lease, share) == slots


@given(st.lists(st.integers(0, 60 * GIB), max_size=12), st.integers(1, 8))
def test_a_gpu_is_never_given_away_twice_nor_beyond_its_size(needs: list[int], share: int) -> None:
    free: list[FreeLease] = [FreeLease("g", bytes=80 * GIB)]
    given_away: list[tuple[int, tuple[int, ...]]] = []
    for number, need in enumerate(needs):
        found = best_lease(free, need, share)
        if found is None:
            continue
        lease, slots = found
        given_away.append((need, slots))
        left = taken(lease, slots, number)
        free = [left] if left is not None else []
    parts = [slot for _, slots in given_away for slot in slots]
    assert len(parts) == len(set(parts))
    assert set(parts) <= set(ALL)
    assert len(given_away) <= share
    if len(given_away) > 1:
        assert all(need <= memory_bytes(80 * GIB, len(slots)) for need, slots in given_away)
        assert sum(memory_bytes(80 * GIB, len(slots)) for _, slots in given_away) <= 80 * GIB


def test_a_whole_gpu_is_the_engines_own_to_measure() -> None:
    assert memory_bytes(80 * GIB, SLOTS) == 0
    assert memory_bytes(80 * GIB, 2) == int(19 * GIB)


def test_what_fits_nowhere_is_said_with_figures_and_only_when_it_is_certain() -> None:
    said = "needs at least 30.0 GiB, and the largest GPU here has 24.0 GiB"
    assert fits_anywhere(30 * GIB, "fast", {"a": 24 * GIB}, {}) == said
    assert fits_anywhere(30 * GIB, "fast", {"a": 24 * GIB, "b": 0}, {}) == "", "b may be large"
    assert fits_anywhere(30 * GIB, "fast", {"a": 24 * GIB, "cpu:0": 0}, {"cpu:0": "fp32"}) == said
    assert fits_anywhere(30 * GIB, "fp32", {"a": 24 * GIB, "cpu:0": 0}, {"cpu:0": "fp32"}) == ""
    assert fits_anywhere(0, "fast", {"a": 24 * GIB}, {}) == ""
    assert fits_anywhere(30 * GIB, "fast", {}, {}) == ""


def test_after_running_out_of_memory_fewer_sequences_are_tried_down_to_one() -> None:
    tried = [0]
    while smaller := next_smaller(tried[-1]):
        tried.append(smaller)
    assert tried == [0, 64, 16, 4, 1]
    assert next_smaller(40) == 16


# -- which leases have room


def free_ids(
    *views: LeaseView, share: int = 1, cpu_engines: bool = False, held: dict[str, dict[int, object]]
) -> list[str]:
    return [lease.id for lease in leases.free_leases(views, held, cpu_engines=cpu_engines, share=share)]


def test_engines_go_to_free_gpus_in_order_and_to_the_cpu_only_where_there_are_none() -> None:
    assert free_ids(CPU, held={}) == ["cpu:0"]
    assert free_ids(gpu(0), CPU, held={}) == ["GPU-0"]
    assert free_ids(gpu(0, "unknown"), CPU, held={}) == [], "a GPU that does not answer is still a GPU"
    assert free_ids(gpu(0), CPU, held={}, cpu_engines=True) == ["GPU-0", "cpu:0"]


@pytest.mark.parametrize("use", ["leased", "busy", "waiting", "zombie", "unknown"])
def test_a_gpu_in_use_takes_no_engine(use: str) -> None:
    assert free_ids(gpu(0, use), held={}) == []


@pytest.mark.parametrize("condition", ["cooldown", "suspect", "quarantined", "draining", "reserved"])
def test_a_gpu_that_is_not_ok_takes_no_engine(condition: str) -> None:
    assert free_ids(gpu(0, condition=condition), held={}) == []


def test_what_the_store_says_is_held_is_held_whatever_the_look_says() -> None:
    assert free_ids(gpu(0), held={"GPU-0": dict.fromkeys(ALL, "e1")}) == []


def test_the_parts_that_are_left_of_a_shared_gpu_are_free_unless_somebody_else_is_there() -> None:
    held: dict[str, dict[int, object]] = {"GPU-0": {0: "e1", 1: "e1"}}
    [lease] = leases.free_leases([gpu(0, "leased")], held, cpu_engines=False, share=4)
    assert (lease.slots, lease.serves) == ((2, 3, 4, 5, 6, 7), ("e1",))
    assert free_ids(gpu(0, "leased"), held=held) == []
    assert free_ids(gpu(0, "leased", contended=True), held=held, share=4) == []


def test_the_cpu_of_a_node_with_gpus_takes_what_computes_in_fp32_alone() -> None:
    found = list(leases.free_leases([gpu(0), CPU], {}, cpu_engines=True, share=1))
    assert [lease.numerics for lease in found] == ["", "fp32"]
    assert leases.restricted([gpu(0), CPU]) == {"cpu:0": "fp32"}
    assert leases.restricted([CPU]) == {}


# -- locks


def test_every_user_of_the_machine_comes_to_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert leases.lock_folder("/mnt/locks") == Path("/mnt/locks")
    private = tmp_path / "private"
    private.mkdir(mode=0o755)
    monkeypatch.setattr(leases, "FOLDERS", (tmp_path / "missing", private, Path("/tmp")))
    assert leases.lock_folder("") == Path("/tmp"), "not a folder that one user alone may write to"


def test_the_whole_of_a_gpu_excludes_its_parts_and_a_strange_name_stays_in_the_folder() -> None:
    folder = Path("/run/lock")
    whole, nothing = leases.lock_files(folder, "GPU-1", ALL)
    parts, shared = leases.lock_files(folder, "GPU-1", (2, 3))
    assert (whole, nothing) == ((folder / "rwkvctl-GPU-1.lock",), None)
    assert (parts, shared) == ((folder / "rwkvctl-GPU-1.2.lock", folder / "rwkvctl-GPU-1.3.lock"), whole[0])
    [strange], _ = leases.lock_files(folder, "MIG-GPU-1/../../etc/x", ALL)
    assert strange.parent == folder


# -- the last look


def seen(use: str = "free", condition: str = "ok", **others: object) -> Gpu:
    return Gpu(reading=GpuReading(id="GPU-0"), use=use, condition=condition, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gpu_now", "shared", "against"),
    [
        (seen(), False, ""),
        (None, False, "it is not there any more"),
        (seen("busy", why="python train.py (bob, pid 7)"), False, "it is busy: python train.py (bob, pid 7)"),
        (seen("unknown", why="the driver hangs"), False, "it is unknown: the driver hangs"),
        (seen(condition="reserved", reason="training"), False, "it is reserved: training"),
        (seen("leased"), False, "it is leased"),
        (seen("leased"), True, ""),
        (seen("leased", why="bob came", contended=True), True, "it is leased: bob came"),
    ],
)
def test_a_last_look_before_the_start(gpu_now: Gpu | None, shared: bool, against: str) -> None:
    assert last_look(gpu_now, shared=shared) == against


@pytest.mark.parametrize(
    ("lease", "device_id", "against"),
    [
        ("cpu:0", "", ""),
        ("GPU-aaa", "GPU-aaa", ""),
        ("MIG-aaa", "GPU-aaa", ""),  # CUDA spells an instance's UUID without its kind
        ("GPU-aaa", "GPU-bbb", "it computes on GPU-bbb, not on its lease GPU-aaa"),
        ("GPU-aaa", "", "it computes on the CPU, not on its lease GPU-aaa"),
    ],
)
def test_an_engine_that_computes_elsewhere_is_refused(lease: str, device_id: str, against: str) -> None:
    assert on_other_device(lease, device_id) == against


# -- pools


def test_a_job_uses_every_open_engine_of_its_kind_and_its_own_while_there_is_none() -> None:
    members = [EngineMember(1, "H100"), EngineMember(2, "H100", closed=True), EngineMember(3, "A100")]
    assert chosen(1, members, exact=False) == (1, 3)
    assert chosen(2, members, exact=False) == (1, 3), "a closed engine is left as soon as there is another"
    assert chosen(2, members[1:2], exact=False) == (2,)
    assert chosen(9, [], exact=False) == ()


def test_in_an_exact_profile_a_job_stays_on_one_kind_of_device() -> None:
    members = [EngineMember(1, "H100"), EngineMember(2, "A100"), EngineMember(3, "H100")]
    assert chosen(1, members, exact=True) == (1, 3)
    assert chosen(2, members, exact=True) == (2,)


# -- spreading


@pytest.mark.parametrize(
    ("outlook", "engines", "full", "coming", "displaces", "expected"),
    [
        (Outlook(work_s=100.0, samples=10_000, load_s=10.0), 1, False, False, False, True),
        (Outlook(work_s=100.0, samples=10_000, load_s=10.0), 5, False, False, False, False),
        (Outlook(work_s=100.0, samples=10_000, load_s=10.0), 4, False, False, True, False),
        (Outlook(work_s=1000.0, samples=200, load_s=1.0), 2, False, False, False, False),
        (Outlook(), 1, True, False, False, True),
        (Outlook(), 1, False, False, False, False),
        (Outlook(), 1, True, True, False, False),
        (Outlook(), 1, True, False, True, True),
    ],
)
def test_when_another_engine_pays(
    outlook: Outlook, engines: int, full: bool, coming: bool, displaces: bool, expected: bool
) -> None:
    assert pays(outlook, engines, full=full, coming=coming, displaces=displaces) is expected


@given(st.floats(1, 1e5), st.integers(1, 64), st.floats(0.1, 100))
def test_another_engine_that_pays_ends_the_work_sooner(work_s: float, engines: int, load_s: float) -> None:
    if pays(Outlook(work_s=work_s, samples=10**9, load_s=load_s), engines, full=False, coming=False):
        assert (work_s + load_s) / (engines + 1) < work_s / engines
