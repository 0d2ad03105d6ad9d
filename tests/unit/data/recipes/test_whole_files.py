"""Files that appear together or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.whole_files import _lock, finish_writing, whole_files
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


def left_by_a_kill(folder: Path, end: str, **parts: str) -> None:
    """The hidden folder of a killed process that wrote b, with what is in it."""
    hidden = folder / f".b{end}"
    hidden.mkdir()
    for name, text in parts.items():
        (hidden / name).write_text(text)


def test_what_a_killed_process_left_is_removed_or_finished(tmp_path: Path) -> None:
    left_by_a_kill(tmp_path, ".x7.writing", a="half")
    finish_writing(tmp_path / "b")
    assert not list(tmp_path.iterdir())
    left_by_a_kill(tmp_path, ".whole", a="1", b="2")
    (tmp_path / "a").hardlink_to(tmp_path / ".b.whole" / "a")  # killed between two names
    finish_writing(tmp_path / "b")
    assert content(tmp_path) == {"a": b"1", "b": b"2"}
    left_by_a_kill(tmp_path, ".replacing", b="4")
    finish_writing(tmp_path / "b")
    assert content(tmp_path) == {"a": b"1", "b": b"4"}
    finish_writing(tmp_path / "b")


def test_a_name_that_was_taken_after_a_kill_stays_and_nothing_else_is_there(tmp_path: Path) -> None:
    left_by_a_kill(tmp_path, ".whole", a="1", b="2")
    (tmp_path / "b").write_bytes(b"mine")
    with pytest.raises(RefusedError, match="b already exists"):
        write(tmp_path)
    assert content(tmp_path) == {"b": b"mine"}
    write(tmp_path, replace=True)
    assert content(tmp_path) == {"a": b"1", "b": b"2"}


def test_two_processes_do_not_write_the_same(tmp_path: Path) -> None:
    def written(text: bytes, meanwhile: Callable[[], None]) -> None:
        with whole_files([tmp_path / "b"], replace=False) as (file,):
            file.write(text)
            meanwhile()

    with pytest.raises(RefusedError, match="b already exists"):
        written(b"first", lambda: written(b"second", lambda: None))
    assert content(tmp_path) == {"b": b"second"}
    (tmp_path / "b").unlink()
    left_by_a_kill(tmp_path, ".whole", b="2")
    with _lock(tmp_path / ".b.whole", tmp_path / "b"), pytest.raises(RefusedError, match="b is being written by"):
        write(tmp_path)


def test_names_that_could_not_all_be_given_are_given_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    rename = Path.rename

    def fails(path: Path, to: Path) -> Path:
        if to.name == "b":
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(PrepareError, match=r"lie whole in .*\.b\.replacing, and could not all .*; write or verify"):
        write(tmp_path, replace=True)
    monkeypatch.undo()
    finish_writing(tmp_path / "b")
    assert content(tmp_path) == {"a": b"1", "b": b"2"}


def test_a_name_that_is_a_pattern_is_a_name(tmp_path: Path) -> None:
    (tmp_path / ".bx.y.writing").mkdir()
    with whole_files([tmp_path / "b[x*]?"], replace=False) as (file,):
        file.write(b"1")
    left = tmp_path / ".b[x*]?.z.writing"
    left.mkdir()
    finish_writing(tmp_path / "b[x*]?")
    assert {path.name for path in tmp_path.iterdir()} == {"b[x*]?", ".bx.y.writing"}


def test_what_another_user_laid_there_gets_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b").write_bytes(b"mine")
    left_by_a_kill(tmp_path, ".replacing", b="foreign")
    left_by_a_kill(tmp_path, ".x.writing", b="foreign")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".b.whole").symlink_to("elsewhere")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    finish_writing(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"mine"
    assert {path.name for path in tmp_path.iterdir()} == {"b", ".b.replacing", ".b.x.writing", ".b.whole", "elsewhere"}
    with pytest.raises(PrepareError, match="cannot be written: Directory not empty; nothing was"):
        write(tmp_path, replace=True)
    assert (tmp_path / "b").read_bytes() == b"mine"
    monkeypatch.undo()
    (tmp_path / ".b.replacing" / "b").unlink()
    finish_writing(tmp_path / "b")
    assert (tmp_path / ".b.whole").is_symlink()
