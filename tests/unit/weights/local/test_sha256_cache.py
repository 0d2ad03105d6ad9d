"""sha256 remembered by file identity: by several processes at once, and through damage."""

import json
import os
from pathlib import Path

import pytest

from rwkv_weights.local.checkpoint_files import FileIdentity
from rwkv_weights.local.sha256_cache import FORMAT, NAME, Sums

SHA = "ab" * 32


def file(path: Path, content: bytes = b"abc") -> Path:
    path.write_bytes(content)
    return path


def test_a_sum_is_known_until_the_file_changes(tmp_path: Path) -> None:
    sums, path = Sums(tmp_path / "cache"), file(tmp_path / "x.pth")
    assert sums.of(path) == ""
    sums.remember(path, FileIdentity.of(path), SHA)
    assert Sums(tmp_path / "cache").of(path) == SHA
    (tmp_path / "link.pth").symlink_to(path)
    assert sums.of(tmp_path / "link.pth") == SHA, "the same file under another name"
    before = path.stat()
    path.write_bytes(b"abd")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sums.of(path) == "", "though its size and the time of its last writing are those of before"


def test_records_of_changed_files_are_dropped_and_of_absent_ones_kept(tmp_path: Path) -> None:
    sums = Sums(tmp_path)
    changed, absent, third = (file(tmp_path / name, name.encode()) for name in ("changed", "absent", "third"))
    for path in (changed, absent):
        sums.remember(path, FileIdentity.of(path), SHA)
    changed.write_bytes(b"something else")
    gone = FileIdentity.of(absent)
    absent.rename(tmp_path / "elsewhere")
    sums.remember(third, FileIdentity.of(third), SHA)
    assert set(sums.known()) == {gone, FileIdentity.of(third)}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": 1, "files": []}', '{"format": 2, "files": [{"device": "x"}]}', '{"files": 3}', "\x00"],
)
def test_a_damaged_cache_is_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    path = file(tmp_path / "x.pth")
    assert Sums(tmp_path).known() == {}
    Sums(tmp_path).remember(path, FileIdentity.of(path), SHA)
    assert Sums(tmp_path).of(path) == SHA
    assert json.loads((tmp_path / NAME).read_text())["format"] == FORMAT
