"""What lies under a weights folder, and which of it a word means."""

from pathlib import Path

import pytest

from rwkv_weights.errors import UnknownCheckpointError, WeightsError
from rwkv_weights.local import inventory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "rwkv7-g1h-1.5b-20260710-ctx10240.pth",
        "rwkv7-g1a-0.1b-20250728-ctx4096.pth",
        "deeper/rwkv7-g1d-0.1b-20260129-ctx8192.pth",
        "my-finetune.safetensors",
        "rwkv7-1.5B-world/model.safetensors",
        "rwkv7-1.5B-world/config.json",
        "rwkv7-2.9B-g1/model.safetensors.index.json",
        "rwkv7-2.9B-g1/model-00001-of-00002.safetensors",
        "rwkv7-2.9B-g1/model-00002-of-00002.safetensors",
        "models--fla-hub--rwkv7-0.4B-g1/snapshots/abc/model.safetensors",
        "half.pth.0123456789ab.part",
        "notes.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * 10)
    (tmp_path / "dangling.pth").symlink_to("nowhere")
    return tmp_path


def test_every_checkpoint_is_found_once_in_natural_order(folder: Path) -> None:
    found = list(inventory.checkpoints(folder))
    assert [one.label for one in found] == [
        "rwkv7-g1a-0.1b-20250728-ctx4096",
        "rwkv7-g1d-0.1b-20260129-ctx8192",
        "rwkv7-0.4B-g1",
        "rwkv7-1.5B-world",
        "rwkv7-g1h-1.5b-20260710-ctx10240",
        "rwkv7-2.9B-g1",
        "my-finetune",
        "builtin",
    ]
    sharded = found[5]
    assert [file.name for file in sharded.files] == [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    assert sharded.size == 20


def test_nothing_has_no_sum(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="has no weight files"):
        inventory.hashed(inventory.at(tmp_path))
    with pytest.raises(WeightsError, match="has no sha256"):
        inventory.combined([], [])
    assert inventory.sha256_of(inventory.at(tmp_path), {}) == ""


def test_no_folder_is_no_checkpoint(tmp_path: Path) -> None:
    assert [found.label for found in inventory.checkpoints(tmp_path / "none")] == ["builtin"]


@pytest.mark.parametrize(
    ("word", "label"),
    [
        ("builtin", "builtin"),
        ("my-finetune", "my-finetune"),
        ("my-finetune.safetensors", "my-finetune"),
        ("g1h", "rwkv7-g1h-1.5b-20260710-ctx10240"),
        ("G1D-0.1B", "rwkv7-g1d-0.1b-20260129-ctx8192"),
        ("rwkv7-1.5B-world", "rwkv7-1.5B-world"),
    ],
)
def test_a_word_means_a_checkpoint(folder: Path, word: str, label: str) -> None:
    assert inventory.choose(word, folder).label == label


def test_a_path_means_itself(folder: Path) -> None:
    assert inventory.choose(str(folder / "notes.txt"), folder / "none").path == folder / "notes.txt"
    index = folder / "rwkv7-2.9B-g1" / "model.safetensors.index.json"
    assert len(inventory.choose(str(index), folder).files) == 2


@pytest.mark.parametrize(
    ("word", "words"),
    [("0.1b", "give more of the name"), ("nope", "see `rwkvctl weights list`"), ("", "no checkpoint")],
)
def test_what_is_unclear_is_asked_back(folder: Path, word: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    with pytest.raises(UnknownCheckpointError, match=words):
        inventory.choose(word or "\x00", folder)
