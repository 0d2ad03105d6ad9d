"""Locks that are asked about without being taken, and last as long as whoever holds them."""

from pathlib import Path

import pytest

from rwkvctl.settings import process_locks


def test_a_file_is_held_until_the_last_holder_has_closed_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not process_locks.is_held(path), "it is not there"
    assert not process_locks.is_held(path / "below"), "nor can it be"
    path.touch()
    assert not process_locks.is_held(path)
    with path.open("r") as first, path.open("r") as second:
        process_locks.hold(first.fileno(), shared=True)
        process_locks.hold(second.fileno(), shared=True)
        assert process_locks.is_held(path)
        first.close()
        assert process_locks.is_held(path)
        with path.open("r+") as third, pytest.raises(BlockingIOError):
            process_locks.hold(third.fileno())
        assert process_locks.is_held(path), "trying has changed nothing"
    assert not process_locks.is_held(path)


def test_asking_takes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as one:
        for _ in range(3):
            assert not process_locks.is_held(path)
        process_locks.hold(one.fileno())
        assert all(process_locks.is_held(path) for _ in range(3))


def test_what_cannot_be_asked_about_counts_as_held(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert process_locks.is_held(tmp_path / "loop")
