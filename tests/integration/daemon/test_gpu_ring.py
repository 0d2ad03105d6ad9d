"""The ring file of the GPUs: what is read is what was written, or nothing; torn, old and foreign files included."""

import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rwkv_daemon.gpus import history_ring
from rwkv_daemon.gpus.history_ring import SECONDS, HistoryPoint, opened

BUSY = HistoryPoint("busy", "ok", 0.97, 71.0, 20 * 2**30, 655.0)
FREE = HistoryPoint("free", "reserved", 0.0, 35.0, 0, 70.0)
NOW = 1_790_000_000


def test_a_day_is_kept_in_a_file_of_fixed_size(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    found = opened(path, 8)
    size = path.stat().st_size
    assert size < 10 * 2**20
    for second in (NOW, NOW + 1, NOW + SECONDS - 1, NOW + SECONDS):
        found.write(second, {"GPU-a": BUSY, "GPU-b": FREE})
    assert path.stat().st_size == size
    assert found.at(NOW) is None, "its place was taken a day later"
    assert found.at(NOW + 1) == {"GPU-a": BUSY, "GPU-b": FREE}
    assert found.at(NOW + SECONDS) == {"GPU-a": BUSY, "GPU-b": FREE}
    assert found.at(NOW + 2) is None
    found.close()


def test_it_survives_a_restart_and_gpus_that_come_and_go(tmp_path: Path) -> None:
    first = opened(tmp_path / "ring", 2)
    first.write(NOW, {"GPU-a": BUSY})
    first.close()
    again = opened(tmp_path / "ring", 3)
    again.write(NOW + 1, {"GPU-b": FREE})
    assert [again.at(second) for second in (NOW, NOW + 1)] == [{"GPU-a": BUSY}, {"GPU-b": FREE}]
    again.close()


def test_more_gpus_than_it_has_room_for_begin_it_anew(tmp_path: Path) -> None:
    small = opened(tmp_path / "ring", 8)
    small.write(NOW, {"GPU-a": BUSY})
    small.close()
    large = opened(tmp_path / "ring", 9)
    assert large.slots == 16
    assert large.at(NOW) is None
    large.write(NOW, {f"GPU-{n}": BUSY for n in range(20)})
    found = large.at(NOW)
    assert found is not None
    assert len(found) == 16, "what has no place is left out"
    large.close()


@pytest.mark.parametrize("junk", [b"", b"not a ring", b"RWKVGPU1" + b"\xff" * 600, b"\0" * 10_000])
def test_a_file_that_is_no_ring_is_begun_anew(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "ring").write_bytes(junk)
    found = opened(tmp_path / "ring", 2)
    found.write(NOW, {"GPU-a": BUSY})
    assert found.at(NOW) == {"GPU-a": BUSY}
    found.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), damage=st.integers(1, 40))
def test_damage_costs_what_it_hit_and_never_invents_anything(tmp_path: Path, seed: int, damage: int) -> None:
    path = tmp_path / "ring"
    path.unlink(missing_ok=True)
    found = opened(path, 2)
    for second in range(NOW, NOW + 20):
        found.write(second, {"GPU-a": BUSY, "GPU-b": FREE})
    dice = random.Random(seed)
    for _ in range(damage):
        place = found.place(NOW) + dice.randrange(20 * found.record_bytes)
        (byte,) = os.pread(found.file, 1, place)
        os.pwrite(found.file, bytes([byte ^ dice.randrange(1, 256)]), place)
    found.close()
    again = opened(path, 2)
    for second in range(NOW, NOW + 20):
        assert again.at(second) in (None, {"GPU-a": BUSY, "GPU-b": FREE})
    again.close()


def test_steps_of_a_window_read_a_few_seconds_each(tmp_path: Path) -> None:
    found = opened(tmp_path / "ring", 1)
    for second in range(NOW, NOW + 120):
        found.write(second, {"GPU-a": BUSY if second < NOW + 60 else FREE})
    steps = list(found.steps(NOW - 60, NOW + 120, 60))
    assert [len(step) for step in steps] == [0, history_ring.SAMPLES_A_STEP, history_ring.SAMPLES_A_STEP]
    assert steps[1][0] == {"GPU-a": BUSY}
    assert steps[2][-1] == {"GPU-a": FREE}
    assert [len(step) for step in found.steps(NOW, NOW + 3, 1)] == [1, 1, 1]
    found.close()
