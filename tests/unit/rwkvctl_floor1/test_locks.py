"""Locks that are asked about without being taken, and last as long as whoever holds them."""

from pathlib import Path

import pytest

from rwkvctl import locks


def test_a_file_is_held_until_the_last_holder_has_closed_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not locks.is_held(path), "it is not there"
    assert not locks.is_held(path / "below"), "nor can it be"
    path.touch()
    assert not locks.is_held(path)
    with path.open("r") as first, path.open("r") as second:
        locks.hold(first.fileno(), shared=True)
        locks.hold(second.fileno(), shared=True)
        assert locks.is_held(path)
        first.close()
        assert locks.is_held(path)
        with path.open("r+") as third, pytest.raises(BlockingIOError):
            locks.hold(third.fileno())
        assert locks.is_held(path), "trying has changed nothing"
    assert not locks.is_held(path)


def test_asking_takes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as one:
        for _ in range(3):
            assert not locks.is_held(path)
        locks.hold(one.fileno())
        assert all(locks.is_held(path) for _ in range(3))


def test_what_cannot_be_asked_about_counts_as_held(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert locks.is_held(tmp_path / "loop")
