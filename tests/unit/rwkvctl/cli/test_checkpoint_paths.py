"""Paths in --models and --manifest: looked for here, with the rights of whoever asks."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rwkvctl.cli import checkpoint_paths, selection
from rwkvctl.cli.checkpoint_paths import CheckpointPathError, split
from rwkvctl.cli.commands.serve import checkpoint
from rwkvctl.cli.context import Context
from rwkvctl.cli.selection import Filters


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("weights/a.pth", "runs/one/rwkv-final.pth", "runs/two/rwkv-final.pth", "runs/two/notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    layout = tmp_path / "hub" / "model.safetensors"
    layout.parent.mkdir()
    layout.touch()
    monkeypatch.chdir(tmp_path / "runs" / "one")
    return tmp_path


def test_a_path_is_made_absolute_and_named_to_the_daemon_as_a_file(shelf: Path) -> None:
    path = str(shelf / "runs" / "one" / "rwkv-final.pth")
    for word in ("rwkv-final.pth", "./rwkv-final.pth", "../one/rwkv-final.pth", path):
        assert split([word], str(shelf / "weights")) == ([path], [{"path": path}])
    every = [str(shelf / "runs" / run / "rwkv-final.pth") for run in ("one", "two")]
    assert split([f"{shelf}/runs/*/*", path], "") == (every, [{"path": one} for one in every])


def test_a_part_of_a_checkpoint_in_several_files_stands_for_its_folder(shelf: Path) -> None:
    (shelf / "hub" / "model.safetensors.index.json").touch()
    (shelf / "hub" / "model-00001-of-00002.safetensors").touch()
    (shelf / "hub" / "config.json").touch()
    folder = str(shelf / "hub")
    for word in (folder, f"{folder}/", f"{folder}/model.safetensors.index.json", f"{folder}/*"):
        assert split([word], "") == ([folder], [{"path": folder}])


def test_what_lies_in_the_weights_folder_is_left_to_the_daemon(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # only the daemon's user may read it
    inside = [str(shelf / "weights" / "a.pth"), f"{shelf}/weights/*", str(shelf / "weights" / "gone.pth")]
    words = [*inside, "rwkv7-g1*", "builtin", "a.pth"]
    assert split(words, str(shelf / "weights")) == (words, [])


def test_a_pattern_that_leads_to_nothing_here_is_left_to_the_daemon(shelf: Path) -> None:
    assert split(["main/*.pth", f"{shelf}/nowhere/*.pth"], "")[1] == []
    gone = str(shelf / "gone.pth")
    assert split([gone], "") == ([gone], [{"path": gone}]), "which says that it is not there"


@pytest.mark.parametrize(
    ("word", "says"), [("{}/runs/two/notes.txt", "is not a checkpoint"), ("{}/runs/two/n*", "is not a checkpoint"),
                       ("{}/runs", "is not a checkpoint"), ("{}/runs/t*", "is not a checkpoint"),
                       ("{}/*s", "matches no checkpoint")]
)  # fmt: skip
def test_what_is_there_and_no_checkpoint_is_said(shelf: Path, word: str, says: str) -> None:
    with pytest.raises(CheckpointPathError, match=says):
        split([word.format(shelf)], "")


def test_devices_and_pipes_are_no_checkpoints_and_never_opened(shelf: Path) -> None:
    os.mkfifo(shelf / "pipe.pth")
    (shelf / "null.pth").symlink_to("/dev/null")
    for name in ("pipe.pth", "null.pth"):
        with pytest.raises(CheckpointPathError, match="is not a checkpoint"):
            split([str(shelf / name)], "")


def test_what_may_not_be_read_is_said_before_anything_is_asked(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    with pytest.raises(CheckpointPathError, match="you have no permission to read"):
        split(["./rwkv-final.pth"], "")


def test_a_selection_names_each_file_twice(shelf: Path) -> None:
    path = str(shelf / "runs" / "one" / "rwkv-final.pth")
    asked = selection.body(Filters(models=["./rwkv-final.pth", "g1*"]), "", "")
    assert asked == {"models": [path, "g1*"], "files": [{"path": path}]}


@pytest.mark.parametrize("keys", [("path", "name"), ("checkpoint_path", "output_name")])
def test_a_manifest_has_our_keys_or_those_of_rwkv_skills(shelf: Path, keys: tuple[str, str]) -> None:
    manifest = shelf / "manifest.json"
    manifest.write_text(json.dumps([{keys[0]: "runs/one/rwkv-final.pth", keys[1]: "one"}, {keys[0]: "/abs/b.pth"}]))
    assert checkpoint_paths.of_manifest(str(manifest)) == [
        {"path": f"{shelf}/runs/one/rwkv-final.pth", "name": "one"}, {"path": "/abs/b.pth", "name": ""},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([{"name": "x"}], "an entry has no 'path'"),
        ([{"path": "a/x.pth"}, {"checkpoint_path": "b/x.pth"}], "two checkpoints have the same name"),
        ([{"path": 7}], "must be strings"), ({"path": "x"}, "not a JSON list"), (["x.pth"], "not a JSON list"),
        ([{"path": None}], "an entry has no 'path'"),
    ],
)  # fmt: skip
def test_a_manifest_that_says_nothing_is_refused(shelf: Path, entries: Any, says: str) -> None:
    manifest = shelf / "manifest.json"
    manifest.write_text(json.dumps(entries))
    with pytest.raises(CheckpointPathError, match=says):
        checkpoint_paths.of_manifest(str(manifest))


def test_serve_takes_a_name_as_lists_show_it_and_of_two_files_the_higher_one(shelf: Path) -> None:
    whole = "rwkv7-g1-0.1b-20260910-ctx4096.pth"
    for place in ("weights", "weights/zz"):
        (shelf / place).mkdir(exist_ok=True)
        (shelf / place / "a.pth").touch()
    (shelf / "weights" / "zz" / whole).touch()
    context = cast(Context, SimpleNamespace(config=SimpleNamespace(weights_dir=shelf / "weights")))
    assert checkpoint(context, "a") == str(shelf / "weights" / "a.pth")
    assert checkpoint(context, "g1-0.1b-20260910") == str(shelf / "weights" / "zz" / whole)
    assert [checkpoint(context, word) for word in ("builtin", "nobody")] == ["builtin", "nobody"]
