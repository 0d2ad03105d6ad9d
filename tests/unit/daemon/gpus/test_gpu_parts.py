"""Small pure parts of the watch: XIDs, the self-test of NVML's list, names of GPUs, points of the ring."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.gpus import history_ring, nvml_card, self_test, xid_events, xid_rules
from rwkv_daemon.gpus.history_ring import HistoryPoint
from rwkv_daemon.gpus.selectors import ids_of
from rwkv_daemon.rules.gpu_facts import Condition, Gpu, GpuProcess, GpuReading, Use
from rwkvctl.cli.commands.gpus import named
from rwkvctl.protocol.errors import Exit, RefusedError

# -- XIDs


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python, Ch 00000008", (("0000:01:00", 31), 4242)),
        ("4,1,2,-;NVRM: Xid (PCI:0000:C1:00): 79, pid='<unknown>', name=<unknown>, GPU has", (("0000:c1:00", 79), 0)),
        ("NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row", (("0000:10:1c", 63), 1896)),
        ("NVRM: Xid (PCI:0000:0a:00): 45, pid='77', name=x", (("0000:0a:00", 45), 77)),
    ],
)
def test_the_kernels_lines_about_xids(line: str, found: Any) -> None:
    assert xid_events.named(line) == [found]


@given(st.text())
def test_other_lines_are_none(text: str) -> None:
    assert all(isinstance(pid, int) for _, pid in xid_events.named(text))


def test_a_bus_is_written_as_the_kernel_writes_it() -> None:
    assert nvml_card.bus_id("00000000:C1:00.0") == "0000:c1:00"


def test_each_code_is_in_one_table_and_the_device_plugins_are_the_applications() -> None:
    assert not xid_rules.APPLICATION.keys() & xid_rules.NOTICE.keys()
    assert not (xid_rules.APPLICATION | xid_rules.NOTICE).keys() & xid_rules.GPU.keys()
    assert {13, 31, 43, 45, 68, 109} <= xid_rules.APPLICATION.keys()
    assert xid_rules.sentence(79) == "XID 79 (GPU has fallen off the bus)"
    assert xid_rules.sentence(7777) == "XID 7777 (not in the catalogue)"
    assert 45 not in xid_rules.ENDS_THE_CONTEXT


# -- the self-test


def listing(gpu: str, *pids: int) -> GpuReading:
    return GpuReading(id=gpu, processes=tuple(GpuProcess(pid=pid) for pid in pids))


@pytest.mark.parametrize(
    ("readings", "own", "says"),
    [
        ([listing("a", 10), listing("b")], {"a": [10]}, ""),
        ([listing("a", 10, 11, 99)], {}, ""),
        ([listing("a", 98)], {}, ""),
        ([listing("a", 98, 99)], {}, "2 of the 2 pids"),
        ([listing("a", 0)], {}, "lists pid 0"),
        ([listing("a", 2**31)], {}, f"lists pid {2**31}"),
        ([listing("a", 11)], {"a": [10]}, "does not list our engine (pid 10) on a"),
        ([GpuReading(id="a")], {"a": [10]}, ""),
        ([listing("b", 10)], {"a": [10]}, ""),
    ],
)
def test_a_list_that_cannot_be_believed(readings: list[GpuReading], own: dict[str, list[int]], says: str) -> None:
    said = self_test.fault(readings, own, 4_194_304, {10, 11}.__contains__)
    assert says in said
    assert bool(said) == bool(says)


# -- names


def gpu(uuid: str, index: int, slot: int | None = None) -> Gpu:
    return Gpu(reading=GpuReading(id=uuid, index=index, slot=slot), use="free")


GPUS = {
    g.id: g
    for g in (gpu("GPU-5a3f0000", 0), gpu("GPU-5a3f1111", 1), gpu("MIG-aaaa", 2, 0), gpu("MIG-bbbb", 2, 1))
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["0"], ["GPU-5a3f0000"]),
        (["1", "0", "1"], ["GPU-5a3f1111", "GPU-5a3f0000"]),
        (["2"], ["MIG-aaaa", "MIG-bbbb"]),
        (["2:1"], ["MIG-bbbb"]),
        (["GPU-5a3f1"], ["GPU-5a3f1111"]),
        (["gpu-5A3F1111"], ["GPU-5a3f1111"]),
        (["bbb"], ["MIG-bbbb"]),
    ],
)
def test_gpus_are_named_by_index_uuid_or_its_beginning(words: list[str], found: list[str]) -> None:
    assert ids_of(words, GPUS) == found


@pytest.mark.parametrize(
    ("words", "code"),
    [(["7"], "no-such-gpu"), (["GPU-5a3f"], "ambiguous-gpu"), (["bb"], "no-such-gpu"), ([], "no-gpu-named"),
     ([""], "no-such-gpu"), (["GPU-"], "no-such-gpu"), (["2:9"], "no-such-gpu")],
)  # fmt: skip
def test_what_names_no_gpu_or_two_is_refused(words: list[str], code: str) -> None:
    with pytest.raises(RefusedError) as refused:
        ids_of(words, GPUS)
    assert refused.value.code == code
    assert refused.value.exit_code in {Exit.NOT_FOUND, Exit.USAGE}


def test_ranges_and_commas_of_the_command_line() -> None:
    assert named(["0-2,5", "GPU-5a-3"]) == ["0", "1", "2", "5", "GPU-5a-3"]


# -- points of the ring

points = st.builds(
    HistoryPoint,
    st.sampled_from(get_args(Use)),
    st.sampled_from(get_args(Condition)),
    st.one_of(st.none(), st.floats(0, 1)),
    st.one_of(st.none(), st.floats(0, 150)),
    st.one_of(st.none(), st.integers(0, 200 * 2**30)),
    st.one_of(st.none(), st.floats(0, 1500)),
)


@given(points)
def test_a_point_is_read_as_it_was_written_but_for_rounding(point: HistoryPoint) -> None:
    data = point.pack()
    assert len(data) == history_ring.POINT.size
    read = HistoryPoint.unpack(data)
    assert read is not None
    assert (read.use, read.condition) == (point.use, point.condition)
    for name, step in (("utilisation", 0.01), ("temperature_c", 1), ("memory_used_bytes", 2**20), ("power_w", 1)):
        before, now = getattr(point, name), getattr(read, name)
        assert (before is None) == (now is None)
        assert before is None or abs(before - now) <= step


@given(st.binary(min_size=history_ring.POINT.size, max_size=history_ring.POINT.size))
def test_any_bytes_are_a_point_or_none(data: bytes) -> None:
    point = HistoryPoint.unpack(data)
    assert point is None or point.use in get_args(Use)
