"""Folders that untrusted programs have filled are removed and measured, however deep they are."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rwkv_daemon.api.requests.deletion import bytes_of
from rwkvctl.cli.service import remains
from rwkvctl.settings.folder_trees import files_below, remove_tree

DEEP = 1_200
"""Folders in each other: over the limit of Python's recursion, and their path over that of the kernel."""


def test_a_folder_is_removed_with_all_that_is_in_it_and_nothing_behind_a_link(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    (kept / "inner").mkdir(parents=True)
    (kept / "file").write_text("stays")
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("goes")
    (folder / "a" / "link").symlink_to(kept)
    (folder / "link").symlink_to(kept / "file")
    (folder / "nowhere").symlink_to(tmp_path / "missing")
    os.mkfifo(folder / "fifo")
    remove_tree(folder)
    assert not folder.exists()
    assert (kept / "file").read_text() == "stays"
    assert (kept / "inner").is_dir()


def test_folders_that_their_owner_may_not_read_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "a" / "b" / "c").mkdir(parents=True)
    for one in ("a/b", "a", "."):
        (folder / one).chmod(0)
    folder.chmod(0o500)
    remove_tree(folder)
    assert not folder.exists()


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A folder with many others in each other, and a file in the first of them."""
    folder = tmp_path / "folder"
    folder.mkdir()
    place = os.open(folder, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("down", dir_fd=place)
        outer, place = place, os.open("down", os.O_RDONLY, dir_fd=place)
        os.close(outer)
    os.close(place)
    (folder / "down" / "file").write_bytes(b"x" * 5_000)
    return folder


@pytest.mark.parametrize("remove", [remove_tree, remains.remove_folder])
def test_any_depth_is_removed(deep: Path, remove: Callable[[Path], object]) -> None:
    remove(deep)
    assert not deep.exists()


def test_any_depth_is_walked_and_measured_as_far_as_paths_reach(deep: Path) -> None:
    (deep / "link").symlink_to("down")
    assert sorted(entry.name for entry in files_below(deep)) == ["file", "link"]
    assert bytes_of([deep, deep / "missing"]) >= 5_000
    remove_tree(deep)


def test_what_is_no_folder_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("stays")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "missing"):
        with pytest.raises(OSError, match=name):
            remove_tree(tmp_path / name)
    assert (tmp_path / "file").read_text() == "stays"
