"""Which files of a watched folder are checkpoints, and since when they stand still."""

import math
import os
from pathlib import Path

import pytest

from rwkv_daemon.training.folders import root_scan
from rwkv_daemon.training.folders.root_scan import identity_key, scan
from rwkv_daemon.training.folders.still_files import SeenFile, StillFiles
from rwkv_weights.local import inventory


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_checkpoints_are_found_with_their_identity(tmp_path: Path) -> None:
    plain = write(tmp_path / "rwkv-1.pth")
    below = write(tmp_path / "step-2" / "model.pth")
    write(tmp_path / "rwkv-1.pth.tmp")
    write(tmp_path / ".rwkv-2.pth")
    write(tmp_path / ".hidden" / "rwkv-3.pth")
    write(tmp_path / "a" / "b" / "c" / "d" / "rwkv-4.pth")
    write(tmp_path / "log.txt")
    found = scan(tmp_path, (), "").files
    assert found.keys() == {"rwkv-1.pth", "step-2/model.pth"}
    for name, path in (("rwkv-1.pth", plain), ("step-2/model.pth", below)):
        identity = inventory.at(path).identity
        assert identity_key(found[name].identity) == (
            identity.device, identity.inode, identity.size, identity.changed_ns
        )  # fmt: skip


def test_a_folder_of_shards_is_one_checkpoint(tmp_path: Path) -> None:
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "config.json"):
        write(tmp_path / "step-3" / name)
    found = scan(tmp_path, (), "").files
    assert found.keys() == {"step-3"}
    before = found["step-3"].identity
    write(tmp_path / "step-3" / "model-00002-of-00002.safetensors", "other")
    assert scan(tmp_path, (), "").files["step-3"].identity != before


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = write(tmp_path / "elsewhere" / "secret.pth")
    root = tmp_path / "root"
    root.mkdir()
    (root / "rwkv-1.pth").symlink_to(secret)
    (root / "below").symlink_to(secret.parent)
    assert not scan(root, (), "").files


def test_patterns_match_whole_names_and_last_parts(tmp_path: Path) -> None:
    for name in ("rwkv-1.pth", "optimizer-1.pth", "run/rwkv-2.pth"):
        write(tmp_path / name)
    assert scan(tmp_path, ("rwkv-*.pth",), "").files.keys() == {"rwkv-1.pth", "run/rwkv-2.pth"}
    assert scan(tmp_path, ("run/*",), "").files.keys() == {"run/rwkv-2.pth"}


def test_a_marker_file_is_noted(tmp_path: Path) -> None:
    for name in ("rwkv-1.pth", "rwkv-2.pth", "rwkv-2.pth.done", "{0.__class__}.pth"):
        write(tmp_path / name)
    found = scan(tmp_path, (), "{}.done").files
    assert {name for name, file in found.items() if file.marked} == {"rwkv-2.pth"}


@pytest.mark.parametrize(
    ("marker", "file"),
    [("done-{}", "run/done-rwkv-1.pth"), (".{}.ok", "run/.rwkv-1.pth.ok"), ("{}.done", "run/rwkv-1.pth.done")],
)
def test_a_marker_lies_beside_the_checkpoint(tmp_path: Path, marker: str, file: str) -> None:
    for name in ("run/rwkv-1.pth", "rwkv-1.pth", file):
        write(tmp_path / name)
    found = scan(tmp_path, ("rwkv-*",), marker).files
    assert found["run/rwkv-1.pth"].marked
    assert not found["rwkv-1.pth"].marked


def test_a_marker_may_lie_in_the_folder_of_a_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "step-3" / "model.safetensors")
    write(tmp_path / "step-3" / "COMPLETE")
    write(tmp_path / "step-4" / "model.pth")
    write(tmp_path / "step-4" / "COMPLETE")
    found = scan(tmp_path, (), "{}/COMPLETE").files
    assert {name: file.marked for name, file in found.items()} == {"step-3": True, "step-4/model.pth": True}


@pytest.mark.parametrize("name", [b"rwkv-\xff.pth", b"rwkv-\n.pth", b"rwkv-\x1b[2J.pth"])
def test_names_that_cannot_be_written_to_a_terminal_are_left_out(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_text("x")
    (tmp_path / os.fsdecode(name.replace(b".pth", b""))).mkdir()
    (tmp_path / os.fsdecode(name.replace(b".pth", b"")) / "rwkv-1.pth").write_text("x")
    assert not scan(tmp_path, (), "").files


def test_shards_without_their_folder_are_no_checkpoints(tmp_path: Path) -> None:
    write(tmp_path / "model-00001-of-00002.safetensors")
    assert not scan(tmp_path, (), "").files


def test_hidden_files_belong_to_a_layout_and_links_spoil_it(tmp_path: Path) -> None:
    for name in ("model.safetensors", ".partial.safetensors"):
        write(tmp_path / "step-3" / name)
    found = scan(tmp_path, (), "").files["step-3"].identity
    identity = inventory.at(tmp_path / "step-3").identity
    assert identity_key(found) == (identity.device, identity.inode, identity.size, identity.changed_ns)
    (tmp_path / "step-3" / "other.safetensors").symlink_to(write(tmp_path / "else" / "x"))
    assert not scan(tmp_path, (), "").files


def test_times_that_the_store_cannot_hold_are_cut(tmp_path: Path) -> None:
    assert root_scan._storable(10**30) == 2**63 - 1
    assert root_scan._storable(-(10**30)) == -(2**63 - 1)


def test_a_folder_that_cannot_be_read_is_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a" / "rwkv-1.pth")
    read = os.scandir

    def refusing(path: Path) -> object:
        if path.name == "a":
            raise OSError(5, "Input/output error")
        return read(path)

    monkeypatch.setattr(root_scan.os, "scandir", refusing)
    found = scan(tmp_path, (), "")
    assert found.unread == {"a/": "Input/output error"}
    assert not found.is_gone("a/rwkv-1.pth")
    assert found.is_gone("rwkv-1.pth")


def test_a_root_is_the_folder_that_was_added(tmp_path: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    inode = root.stat().st_ino
    root_scan.check_root(root, inode)
    root.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        root_scan.check_root(root, inode)
    root.mkdir()
    with pytest.raises(root_scan.UnfitRootError, match="not mounted"):
        root_scan.check_root(root, inode)
    root.rmdir()
    root.symlink_to(tmp_path / "away")
    with pytest.raises(root_scan.UnfitRootError, match="a link leads it"):
        root_scan.check_root(root, inode)


def test_a_root_that_is_gone_is_no_empty_root(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        scan(tmp_path / "gone", (), "")


def test_a_root_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_scan, "MOST", 3)
    for number in range(4):
        write(tmp_path / f"rwkv-{number}.pth")
    with pytest.raises(root_scan.UnfitRootError):
        scan(tmp_path, (), "")


def test_a_name_that_comes_or_goes_is_noticed_without_a_scan(tmp_path: Path) -> None:
    first = write(tmp_path / "run" / "rwkv-1.pth")
    folders = scan(tmp_path, (), "").folders
    assert not root_scan.names_changed(tmp_path, folders)
    first.write_text("longer")
    assert not root_scan.names_changed(tmp_path, folders), "only a scan sees that a file grows"
    os.utime(tmp_path / "run", ns=(0, folders["run/"] + 1))
    assert root_scan.names_changed(tmp_path, folders)
    first.unlink()
    first.parent.rmdir()
    assert root_scan.names_changed(tmp_path, folders)


def test_a_file_is_still_once_it_has_not_changed_for_so_long() -> None:
    still = StillFiles()
    still.look({"a": SeenFile("1", 0)}, 100.0)
    assert not still.is_still("a", 30, 129.0)
    assert still.is_still("a", 30, 130.0)
    still.look({"a": SeenFile("2", 0)}, 131.0)
    assert not still.is_still("a", 30, 160.0)
    still.look({}, 162.0)
    assert not still.is_still("a", 0, 200.0), "a file that is gone is not still"
    still.look({"a": SeenFile("2", 0)}, 170.0)
    assert not still.is_still("a", 30, 199.0), "one that came back begins anew"


def test_the_next_moment_at_which_a_file_is_still_is_known() -> None:
    still = StillFiles()
    still.look({"a": SeenFile("1", 0)}, 100.0)
    still.look({"a": SeenFile("1", 0), "b": SeenFile("2", 0)}, 110.0)
    assert still.next_still(["a", "b", "gone"], 30, 120.0) == 130.0
    assert still.next_still(["a", "b"], 30, 130.0) == 140.0
    assert still.next_still(["a", "b"], 30, 140.0) == math.inf
