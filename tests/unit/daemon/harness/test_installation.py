"""Installations: in which state one is, and what its own tasks are."""

import os
from pathlib import Path

import pytest
from harness_folders import built, harness

from rwkv_daemon.harness import installation
from rwkv_daemon.harness.installation import Installation, TaskList, last_line, own_sha256
from rwkvctl.settings import process_locks


def test_a_harness_is_not_built_then_broken_with_its_last_line_then_ready(tmp_path: Path) -> None:
    here, mine = harness(tmp_path)
    at = Installation.of(here, mine)
    assert at.state() == ("not built", "")
    assert at.tasks() is None
    at.folder.mkdir(parents=True)
    at.log.write_text("begins\nno such wheel\n\n")
    assert at.state() == ("broken", "no such wheel")
    built(tmp_path, "a", "b")
    assert at.state() == ("ready", "")
    assert at.tasks() == TaskList(names=("a", "b"), own=("a", "b"), own_sha256="")


def test_a_harness_is_building_while_somebody_holds_its_lock(tmp_path: Path) -> None:
    _, _, at = built(tmp_path, "a")
    at.log.write_text("compiles\n")
    with at.build_lock.open("wb") as file:
        process_locks.hold(file.fileno())
        assert at.state() == ("building", "compiles")
    assert at.state() == ("ready", "")


def test_another_lock_is_another_installation_with_the_same_cache(tmp_path: Path) -> None:
    here, mine, at = built(tmp_path, "a")
    (here.harnesses_dir / "mine.lock").write_text("lm-eval==1.3\n")
    other = Installation.of(here, installation.Harness(name="mine", manifest=mine.manifest, text="", lock="other"))
    assert at.folder == here.home / "harnesses" / "mine" / mine.lock_sha256[: installation.LOCK_DIGITS]
    assert other.folder != at.folder
    assert other.state() == ("not built", "")
    assert other.cache == at.cache


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"names": [1], "own_sha256": ""}', b'{"names": ["a"]}'])
def test_a_torn_file_of_tasks_is_none(tmp_path: Path, content: bytes) -> None:
    _, _, at = built(tmp_path, "a")
    at.task_file.write_bytes(content)
    assert at.tasks() is None


def test_each_state_of_the_own_tasks_has_a_copy(tmp_path: Path) -> None:
    here, _, at = built(tmp_path, "a")
    assert at.own == here.harnesses_dir / "mine"
    copies = {at.copy_of_own(sha256) for sha256 in ("", "a" * 64, "b" * 64)}
    assert len(copies) == 3
    assert {copy.parent for copy in copies} == {at.folder / "own"}


def test_a_run_keeps_its_installation_and_two_may(tmp_path: Path) -> None:
    _, _, at = built(tmp_path, "a")
    with pytest.raises(FileNotFoundError), at.used():
        pass
    at.in_use.touch()
    with at.used(), at.used():
        assert process_locks.is_held(at.in_use)
    assert not process_locks.is_held(at.in_use)


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"", ""), (b"\n \n", ""), (b"a\nb", "b"), (b"a\n  b  \n\n", "b"), (b"\xff\n", "\N{REPLACEMENT CHARACTER}"),
     (b"x" * 9000 + b"\nend", "end")],
)  # fmt: skip
def test_the_last_line_is_the_last_that_is_not_blank(tmp_path: Path, content: bytes, line: str) -> None:
    (tmp_path / "log").write_bytes(content)
    assert last_line(tmp_path / "log") == line
    assert not last_line(tmp_path / "no-log")


def test_the_hash_of_own_tasks_is_of_names_and_contents(tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert own_sha256(own) == ""
    own.mkdir()
    assert own_sha256(own) == ""
    (own / "sub").mkdir()
    (own / "sub" / "a.yaml").write_text("task: a")
    hashes = [own_sha256(own)]
    (own / "sub" / "a.yaml").write_text("task: b")
    hashes.append(own_sha256(own))
    (own / "sub" / "a.yaml").rename(own / "a.yaml")
    hashes.append(own_sha256(own))
    assert len(set(hashes)) == 3
    assert all(hashes)


def test_what_python_leaves_behind_is_no_task(tmp_path: Path) -> None:
    (tmp_path / "own" / "__pycache__").mkdir(parents=True)
    (tmp_path / "own" / "__pycache__" / "a.pyc").touch()
    assert own_sha256(tmp_path / "own") == ""


def test_a_file_whose_name_is_no_text_has_a_hash(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path / "own") + b"/\xff")).touch()
    assert own_sha256(tmp_path / "own")


def test_a_folder_of_rows_is_no_folder_of_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "MOST_OWN_BYTES", 3)
    (tmp_path / "rows").write_text("1234")
    with pytest.raises(OSError, match="keep rows elsewhere"):
        own_sha256(tmp_path)


def test_a_link_to_a_folder_is_refused_since_its_files_would_not_be_seen(tmp_path: Path) -> None:
    own, rows = tmp_path / "own", tmp_path / "rows"
    own.mkdir()
    rows.mkdir()
    (own / "file").symlink_to(__file__)
    assert installation.own_sha256(own)
    (own / "rows").symlink_to(rows)
    with pytest.raises(OSError, match="rows is a link to a folder: put its files"):
        installation.own_sha256(own)
