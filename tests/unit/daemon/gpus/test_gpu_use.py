"""Whose a GPU is: every use, from readings, holders, leases and idle time as plain values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.gpus.usage_rules import DEAD, FREE_BYTES, GpuObservation, idle_since, use_of
from rwkv_daemon.rules.gpu_facts import GpuProcess, GpuReading, Holder, HolderClass

GIB = 2**30
CLASSES = ("protected", "ours", "orphan", "container", "other-user", "foreign", "defunct", "stuck", "ghost")


def reading(*, used: int | None = 0, pids: tuple[int, ...] | None = (), **values: Any) -> GpuReading:
    listed = None if pids is None else tuple(GpuProcess(pid=pid, bytes=GIB) for pid in pids)
    return GpuReading(
        id="GPU-a", index=3, memory_used_bytes=used, memory_total_bytes=80 * GIB, processes=listed, **values
    )


def holder(cls: HolderClass, pid: int = 7, **values: Any) -> Holder:
    return Holder(pid=pid, cls=cls, bytes=GIB, user="alice", command="python train.py", **values)


def held(*holders: Holder, idle_s: float | None = 0.0, **values: Any) -> GpuObservation:
    return GpuObservation(reading(used=20 * GIB, pids=tuple(h.pid for h in holders)), holders, idle_s=idle_s, **values)


TABLE: list[tuple[str, GpuObservation, str, str]] = [
    ("nothing there", GpuObservation(reading(), idle_s=3.0), "free", ""),
    ("the driver's own memory", GpuObservation(reading(used=FREE_BYTES), idle_s=3.0), "free", ""),
    ("use is not measured (MIG), nothing there", GpuObservation(reading(), idle_s=None), "free", ""),
    ("computed a moment ago", GpuObservation(reading(), idle_s=1.0), "busy", "a moment ago"),
    ("memory and nobody", GpuObservation(reading(used=20 * GIB), idle_s=500.0), "unknown", "20.0 GiB are in use"),
    ("the driver hides processes", GpuObservation(reading(pids=None), idle_s=9.0), "unknown", "does not say"),
    ("the driver hides memory", GpuObservation(reading(used=None), idle_s=9.0), "unknown", "does not say"),
    ("trouble", GpuObservation(reading(trouble="it hangs"), engines=("e1",)), "unknown", "it hangs"),
    ("an engine of ours, warm and idle", held(holder("ours"), idle_s=9e9, engines=("e1",)), "leased", ""),
    ("an engine of ours before its process", GpuObservation(reading(), engines=("e1",)), "leased", ""),
    ("our worker without a lease", held(holder("ours")), "leased", "starting or ending"),
    ("somebody computes", held(holder("foreign"), idle_s=1.0), "busy", "python train.py (alice, pid 7)"),
    ("somebody evaluates", held(holder("other-user"), idle_s=720.0), "waiting", "nothing for 12 min"),
    ("use unknown is not idle", held(holder("foreign"), idle_s=None), "busy", "python train.py"),
    ("a container waits", held(holder("container", container="d3adb33f"), idle_s=90.0), "waiting", "d3adb33f"),
    ("an orphan of ours", held(holder("orphan"), idle_s=0.0), "zombie", "rwkvctl zombies"),
    ("defunct and ghost", held(holder("defunct"), holder("ghost", 8)), "zombie", "and 1 more"),
    ("a live one beside a dead one", held(holder("orphan"), holder("foreign", 8), idle_s=1.0), "busy", "pid 8"),
    ("stuck in the driver", held(holder("stuck"), idle_s=900.0), "busy", "hangs in the driver"),
    (
        "a display that holds little",
        GpuObservation(reading(used=9, pids=(7,)), (holder("protected"),), idle_s=9),
        "free",
        "",
    ),
    ("a service that holds much", held(holder("protected"), idle_s=900.0), "waiting", "nothing for 15 min"),
    (
        "listed, but never looked at",
        GpuObservation(reading(used=GIB, pids=(7,)), idle_s=1.0),
        "busy",
        "a process (pid 7)",
    ),
    ("a probe explains", held(holder("foreign"), idle_s=99.0, probe="step 1200"), "waiting", "says: step 1200"),
]


@pytest.mark.parametrize(("look", "use", "says"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_use_and_why(look: GpuObservation, use: str, says: str) -> None:
    verdict = use_of(look)
    assert verdict.use == use
    assert says in verdict.why
    assert bool(verdict.why) == bool(says)


@pytest.mark.parametrize("cls", ["foreign", "other-user", "container"])
def test_somebody_beside_an_engine_of_ours_is_contention_and_the_engine_stays(cls: HolderClass) -> None:
    verdict = use_of(held(holder("ours", 5), holder(cls, 7), engines=("e1",)))
    assert (verdict.use, verdict.contended) == ("leased", True)
    assert "python train.py (alice, pid 7) came to the GPU that e1 computes on" in verdict.why


@pytest.mark.parametrize("cls", ["protected", "orphan", "ours"])
def test_our_own_and_the_system_are_no_contention(cls: HolderClass) -> None:
    assert not use_of(held(holder("ours", 5), holder(cls, 7), engines=("e1",))).contended


@given(
    classes=st.lists(st.sampled_from(CLASSES), max_size=4),
    used=st.one_of(st.none(), st.integers(0, 80 * GIB)),
    listed=st.booleans(),
    idle_s=st.one_of(st.none(), st.floats(0, 1e6)),
    engines=st.sampled_from([(), ("e1",)]),
    trouble=st.sampled_from(["", "it hangs"]),
)
def test_free_and_zombie_are_only_said_of_what_is_so(
    classes: list[HolderClass], used: int | None, listed: bool, idle_s: float | None, engines: Any, trouble: str
) -> None:
    holders = tuple(holder(cls, pid) for pid, cls in enumerate(classes, 10))
    pids = tuple(h.pid for h in holders) if listed else None
    look = GpuObservation(reading(used=used, pids=pids, trouble=trouble), holders, engines, idle_s)
    use = use_of(look).use
    if use == "free":
        assert not trouble
        assert not engines
        assert listed
        assert used is not None
        assert used <= FREE_BYTES
        assert set(classes) <= {"protected"}
    if use == "zombie":
        assert set(classes) <= DEAD | {"protected"}
        assert set(classes) & DEAD
    if engines and not trouble:
        assert use == "leased"


def test_idle_time_runs_from_the_last_use_and_not_from_before_a_process_came() -> None:
    assert idle_since(None, None, 5.0, newcomer=False) is None
    first = idle_since(None, 0.0, 100.0, newcomer=False)
    assert first is not None
    assert use_of(GpuObservation(reading(), idle_s=100.0 - first)).use == "free", (
        "an idle GPU is free at the first look"
    )
    assert idle_since(first, 0.0, 200.0, newcomer=False) == first
    assert idle_since(first, 0.01, 200.0, newcomer=False) == 200.0
    assert idle_since(first, 0.0, 200.0, newcomer=True) == 200.0
    assert idle_since(first, None, 200.0, newcomer=False) is None
