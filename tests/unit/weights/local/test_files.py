"""Identity and hash of a file, and the verb `hash` that prints them."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from rwkv_weights import __main__ as chore
from rwkv_weights.local import checkpoint_files, inventory, sha256_sidecar
from rwkv_weights.local.checkpoint_files import FileIdentity, builtin_checkpoint_path, hash_file


def test_hash_and_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_files, "CHUNK_BYTES", 7)
    path = tmp_path / "w.pth"
    path.write_bytes(bytes(range(256)))
    hashed = hash_file(path)
    assert hashed.sha256 == hashlib.sha256(bytes(range(256))).hexdigest()
    assert hashed.identity == FileIdentity.of(path)
    assert hashed.identity.size == 256
    assert not hashed.changed


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.pth"
    path.write_bytes(b"a")
    other = FileIdentity(1, 2, 3, 4)
    monkeypatch.setattr(FileIdentity, "of", classmethod(lambda _cls, _path: other))
    assert hash_file(path).changed


def test_the_chore_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.pth"
    path.write_bytes(b"abc")
    assert chore.main(["hash", str(path)]) == 0
    line = json.loads(capsys.readouterr().out)
    assert set(line) == {"path", "sha256", "device", "inode", "size", "changed_ns", "changed", "problem"}
    assert (line["path"], line["size"], line["changed"]) == (str(path), 3, False)
    assert "w.pth" in line["problem"]


def test_the_chore_says_what_is_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = {"blocks.0.att.key.lora_A": torch.ones(2, 128), "blocks.0.att.key.lora_B": torch.ones(128, 2)}
    torch.save(adapter, tmp_path / "a.pth")
    for path, problem in ((builtin_checkpoint_path(), ""), (tmp_path / "a.pth", "a.pth is an adapter (lora)")):
        assert chore.main(["hash", str(path)]) == 0
        assert json.loads(capsys.readouterr().out)["problem"].startswith(problem)


def test_a_file_that_goes_while_it_is_hashed_is_not_said_to_be_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "w.pth"
    path.write_bytes(builtin_checkpoint_path().read_bytes())
    hashed = inventory.hashed

    def hashed_then_gone(*given: Any) -> Any:
        found = hashed(*given)
        path.unlink()
        return found

    monkeypatch.setattr(inventory, "hashed", hashed_then_gone)
    assert chore.main(["hash", str(path)]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_the_chore_says_what_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert chore.main(["hash", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.pth")
    for path in (tmp_path / "pipe.pth", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is no file, but a folder, pipe"):
            hash_file(path)
        assert chore.main(["hash", str(path)]) == 1
        assert capsys.readouterr().err == f"cannot read {path}: it is no file, but a folder, pipe, socket or device\n"
    os.mkfifo(tmp_path / "w.pth.sha256")
    assert sha256_sidecar.read(tmp_path / "w.pth") == ""


def test_the_builtin_checkpoint_is_named_or_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_files, "BUILTIN", tmp_path)
    with pytest.raises(FileNotFoundError, match="built-in"):
        builtin_checkpoint_path()
    (tmp_path / "a.pth").touch()
    assert builtin_checkpoint_path() == tmp_path / "a.pth"


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one file of weights that this process may read."""
    path = tmp_path / "mine.pth"
    path.write_bytes(b"weights")
    monkeypatch.setattr(checkpoint_files, "ALLOWED", set())
    monkeypatch.setattr(checkpoint_files, "READ", [])
    found = path.stat()
    checkpoint_files.allow_only([f"{found.st_dev}:{found.st_ino}:{found.st_ctime_ns}"])
    return path


@pytest.mark.parametrize("name", ["other.pth", "other.json", "other.sha256"])
def test_no_name_leads_to_another_file_of_weights(only: Path, name: str) -> None:
    other = only.with_name(name)
    other.write_bytes(b"secret")
    with checkpoint_files.open_plain(only) as file:
        assert file.read() == b"weights"
    with pytest.raises(OSError, match="not the file that was asked for"):
        checkpoint_files.open_plain(other)
    with checkpoint_files.open_plain(other, beside=True) as file:
        assert file.read() == b"secret", "what lies beside weights is read by those who want no weights of it"


def test_a_file_that_was_changed_while_it_was_read_is_refused(only: Path) -> None:
    checkpoint_files.open_plain(only).close()
    checkpoint_files.check_unchanged()
    checkpoint_files.open_plain(only).close()
    only.write_bytes(b"changed")
    with pytest.raises(OSError, match="not the file that was asked for"):
        checkpoint_files.check_unchanged()
    assert not checkpoint_files.READ


def test_an_emptied_folder_is_no_weights() -> None:
    with pytest.raises(FileNotFoundError, match="no file of weights"):
        checkpoint_files.together([], [])
