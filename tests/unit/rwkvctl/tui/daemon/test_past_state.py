"""The node at an earlier second."""

import pytest

from rwkvctl.protocol.events import Event
from rwkvctl.protocol.gpus import GpuHistoryReply, GpuTrack
from rwkvctl.protocol.views import LeaseView
from rwkvctl.tui.daemon import snapshot
from rwkvctl.tui.daemon.state import ConsoleState

AT = 1_000_000


def track(use: list[str]) -> GpuTrack:
    count = len(use)
    return GpuTrack(
        id="GPU-1", index="0", use=tuple(use), condition=("ok",) * count, power_w=(300.0,) * count,
        utilisation=tuple(n / 100 if word else None for n, word in enumerate(use)), temperature_c=(60.0,) * count,
        memory_used_bytes=tuple(range(count)),
    )  # fmt: skip


def picture(use: list[str]) -> ConsoleState:
    now = ConsoleState(node="n", leases={"GPU-1": LeaseView(id="GPU-1", index="0", name="H200", memory_total_bytes=99)})
    reply = GpuHistoryReply(since=AT - len(use) + 1, until=AT + 1, step_s=1, items=(track(use),))
    return snapshot.picture(now, reply, [Event(kind="a", at="", seq=1), Event(kind="b", at="", seq=2)], AT)


def test_a_device_is_as_it_was_recorded_and_keeps_its_name() -> None:
    found = picture(["leased"] * 121)
    lease = found.leases["GPU-1"]
    assert (lease.use, lease.utilisation, lease.memory_used_bytes) == ("leased", 1.2, 120)
    assert (lease.name, lease.memory_total_bytes, lease.index) == ("H200", 99, "0")
    assert len(found.uses["GPU-1"]) == 120
    assert [event.seq for event in found.events] == [2, 1]
    assert not found.problem


def test_a_second_that_was_missed_is_as_the_one_before() -> None:
    found = picture(["leased"] * 118 + ["zombie", "", ""])
    assert (found.leases["GPU-1"].use, found.leases["GPU-1"].why) == ("zombie", "reason not recorded")


def test_what_was_not_recorded_is_unknown() -> None:
    lease = picture(["leased"] * 100 + [""] * 21).leases["GPU-1"]
    assert (lease.use, lease.why, lease.utilisation) == ("unknown", "no data recorded at that time", None)


def test_the_bar_says_that_it_is_the_past_and_where_in_the_day() -> None:
    def said(ago: float) -> str:
        return "".join(text for text, _ in snapshot.bar(AT, AT + ago, 3, wide=True))

    assert "PAST  01-12 13:46:40 UTC · 2h13m ago · 3 jobs ran" in said(7980)
    assert said(0).partition("−24h ")[2].index("●") == snapshot.SCALE_CELLS - 1
    assert said(snapshot.DAY_S).partition("−24h ")[2].index("●") == 0
    narrow = "".join(text for text, _ in snapshot.bar(AT, AT + 90, 3, wide=False))
    assert len(narrow) <= 80
    assert "●" not in narrow


def test_only_the_last_day_is_recorded() -> None:
    assert snapshot.within(AT - 60.5, AT) == AT - 61
    with pytest.raises(ValueError, match="24 hours"):
        snapshot.within(AT - snapshot.DAY_S - 1, AT)
    with pytest.raises(ValueError, match="in the future"):
        snapshot.within(AT + 1, AT)
