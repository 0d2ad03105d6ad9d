"""Files that appear together or not at all."""

import errno
import os
from pathlib import Path

import pytest

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.whole_files import whole_files
from rwkvctl.protocol.errors import RefusedError


def write(folder: Path, *, replace: bool = False) -> None:
    with whole_files([folder / "a", folder / "b"], replace=replace) as (one, other):
        one.write(b"1")
        other.write(b"2")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_both_are_there(tmp_path: Path) -> None:
    write(tmp_path)
    assert content(tmp_path) == {"a": b"1", "b": b"2"}
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("there", ["a", "b"])
def test_nothing_is_replaced_unless_that_is_asked_for(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_bytes(b"mine")
    with pytest.raises(RefusedError, match=f"{there} already exists and was not changed. --replace replaces it"):
        write(tmp_path)
    assert content(tmp_path) == {there: b"mine"}
    write(tmp_path, replace=True)
    assert content(tmp_path) == {"a": b"1", "b": b"2"}


def test_a_file_that_comes_in_between_stays_and_nothing_is_written(tmp_path: Path) -> None:
    with (
        pytest.raises(RefusedError, match="b already exists"),
        whole_files([tmp_path / "a", tmp_path / "b"], replace=False),
    ):
        (tmp_path / "b").write_bytes(b"mine")
    assert content(tmp_path) == {"b": b"mine"}


def test_after_an_error_nothing_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        with whole_files([tmp_path / "a"], replace=False) as (one,):
            one.write(b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert content(tmp_path) == {}

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PrepareError, match=r"a and .*b cannot be written: No space left on device; nothing was"):
        write(tmp_path)
    assert content(tmp_path) == {}


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(PrepareError, match="cannot be written: No such file or directory"):
        write(tmp_path / "none")


def test_a_file_system_without_links_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(_path: Path, _to: Path) -> None:
        raise OSError(errno.EPERM, "no")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    write(tmp_path)
    assert content(tmp_path) == {"a": b"1", "b": b"2"}
