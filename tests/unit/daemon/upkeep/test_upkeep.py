"""Room on the disk, which logs go first, the cgroup that was given to us: rules without I/O."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.host import disk
from rwkv_daemon.logs.log_reader import LogPiece
from rwkv_daemon.logs.retention import SPARED, LogFile, to_remove
from rwkv_daemon.logs.timestamps import LogTimes, seconds, spelt
from rwkv_daemon.workers import cgroups
from rwkv_daemon.workers.cgroups import CgroupLimits

FLOOR, BALLAST = 1000, 100


@pytest.mark.parametrize(
    ("free", "was_low", "low", "gives", "takes"),
    [
        (5000, False, False, False, True),
        (1001, False, False, False, False),
        (999, False, True, False, False),
        (1001, True, True, False, False),  # not enough to begin again
        (1250, True, False, False, False),
        (249, True, True, True, False),
        (1449, False, False, False, False),
        (1451, False, False, False, True),
    ],
)
def test_what_is_done_at_which_room(free: int, was_low: bool, low: bool, gives: bool, takes: bool) -> None:
    room = disk.judge(free, FLOOR, BALLAST, was_low=was_low)
    assert (room.low, room.give_ballast, room.take_ballast) == (low, gives, takes)


@given(st.integers(0, 10**12), st.integers(0, 10**10), st.integers(0, 10**9), st.booleans())
def test_the_ballast_never_makes_room_scarce(free: int, floor: int, size: int, low: bool) -> None:
    room = disk.judge(free, floor, size, was_low=low)
    assert not (room.give_ballast and room.take_ballast)
    assert not room.take_ballast or not disk.judge(free - size, floor, size, was_low=False).low
    assert not disk.judge(free, 0, size, was_low=low).low, "a floor of 0 turns it off"


def test_the_sentence_does_not_change_with_the_room_that_is_left() -> None:
    assert disk.sentence(256 * 2**20, Path("/home/x")) == (
        "less than 256 MiB are free under /home/x; jobs go on by themselves when there is room"
    )


FILES = st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 1000), st.booleans()), max_size=30)


@given(FILES, st.integers(0, 10_000))
def test_pruning_takes_the_oldest_of_what_is_finished_and_no_more_than_it_must(
    wanted: list[tuple[float, int, bool]], most: int
) -> None:
    files = [LogFile(Path(f"j{n}/log-1.txt"), changed, size) for n, (changed, size, _) in enumerate(wanted)]
    over = {file.path for file, (_, _, finished) in zip(files, wanted, strict=True) if finished}
    chosen = to_remove(files, most, over.__contains__)
    total = sum(file.bytes for file in files)
    left = total - sum(file.bytes for file in files if file.path in chosen)
    assert set(chosen) <= over
    assert chosen == [] if total <= most else left <= most * SPARED or set(chosen) == over
    if chosen:
        youngest = max(file.changed for file in files if file.path in chosen)
        assert all(file.changed >= youngest for file in files if file.path in over - set(chosen))
        without_last = left + next(file.bytes for file in files if file.path == chosen[-1])
        assert without_last > most * SPARED


@pytest.mark.parametrize(
    ("membership", "mounts", "expected"),
    [
        (
            "0::/system.slice/rwkvctl.service/daemon\n",
            "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
            "/sys/fs/cgroup/system.slice/rwkvctl.service/daemon",
        ),
        (
            "8:pids:/x\n0::/\n",
            (
                "30 24 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
                "31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            ),
            "/sys/fs/cgroup/unified",
        ),
        (  # a container that sees only its own part of the tree
            "0::/docker/abc/worker\n",
            "35 24 0:30 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "/sys/fs/cgroup/worker",
        ),
        ("0::/x\n", "35 24 0:30 / /mnt/with\\040blank rw - cgroup2 cgroup2 rw\n", "/mnt/with blank/x"),
        ("8:pids:/x\n", "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", None),
        ("0::/x\n", "35 24 0:30 / /proc rw - proc proc rw\n", None),
        ("", "", None),
    ],
)
def test_where_our_cgroup_lies(membership: str, mounts: str, expected: str | None) -> None:
    found = cgroups.own_cgroup(membership, mounts)
    assert found == (Path(expected) if expected else None)


def test_limits_are_files_and_zero_is_none() -> None:
    assert CgroupLimits(memory_bytes=5, pids=7).files() == [("memory.max", "5"), ("pids.max", "7")]
    assert CgroupLimits().files() == []
    assert cgroups.Scopes().make("x", CgroupLimits(1, 1)) is None
    assert cgroups.open_scopes("off").root is None


ENTRIES = st.lists(st.integers(1, 20), min_size=1, max_size=12)


@given(ENTRIES, st.integers(0, 60), st.integers(1, 60))
def test_parts_with_times_are_the_piece(growth: list[int], start: int, length: int) -> None:
    """However a log grew, its parts join to the piece, each within one entry, and their times never go back."""
    sizes = [sum(growth[: n + 1]) for n in range(len(growth))]
    times = LogTimes(Path("none"), [float(n) for n in range(len(growth))], sizes)
    piece = LogPiece(start, b"x" * length)
    parts = list(times.split(piece, now=1e6))
    assert b"".join(part.data for part, _ in parts) == piece.data
    assert all(before.end == after.start for (before, _), (after, _) in pairwise(parts))
    assert [at for _, at in parts] == sorted(at for _, at in parts)
    for part, at in parts:
        covered = [n for n, size in enumerate(sizes) if size > part.start]
        assert at == (spelt(float(covered[0])) if covered else spelt(1e6))


@pytest.mark.parametrize(("moment", "offset"), [(-1.0, 0), (0.0, 0), (0.5, 10), (1.0, 10), (1.5, 30), (9.0, 30)])
def test_where_a_moment_begins_in_a_log(moment: float, offset: int) -> None:
    assert LogTimes(Path("none"), [0.0, 1.0], [10, 30]).offset_at(moment) == offset


def test_moments_are_spelt_as_everywhere() -> None:
    assert spelt(seconds("2026-11-01T02:58:00Z")) == "2026-11-01T02:58:00Z"
    assert seconds("2026-11-01T02:58:00") == seconds("2026-11-01T02:58:00+00:00")
