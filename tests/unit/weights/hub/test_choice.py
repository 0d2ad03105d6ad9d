"""Which files of a repository are wanted, where they go, and whether they fit."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_weights.errors import HubError, WeightsError
from rwkv_weights.hub import choice
from rwkv_weights.hub.choice import Item
from rwkv_weights.hub.remote import RemoteFile, backoff, persistently, retry_after
from rwkv_weights.local.sha256_cache import Sums


class Usage(NamedTuple):
    """Stand-in for the result of `shutil.disk_usage`, in bytes."""

    total: int
    used: int
    free: int


def remote(path: str, size: int = 10, repo: str = "o/rwkv7-1.5B-world", sha256: str = "ab" * 32) -> RemoteFile:
    return RemoteFile(repo, "c" * 40, path, size, sha256, "12" * 20)


PATHS = [
    "README.md",
    "b-0.4b.pth",
    "a-0.1b.pth",
    "model-1.safetensors",
    "model.safetensors.index.json",
    "config.json",
    "x.bin",
]


@pytest.mark.parametrize(
    ("globs", "wanted"),
    [
        ([], ["a-0.1b.pth", "b-0.4b.pth", "config.json", "model.safetensors.index.json", "model-1.safetensors"]),
        (["*0.1b*"], ["a-0.1b.pth"]),
        (["A-*", "b-0.4b.pth"], ["a-0.1b.pth", "b-0.4b.pth"]),
        (["model-*"], ["config.json", "model.safetensors.index.json", "model-1.safetensors"]),
        (["*.bin", "README*"], []),
    ],
)
def test_what_is_wanted(globs: list[str], wanted: list[str]) -> None:
    assert [file.path for file in choice.wanted(map(remote, PATHS), globs)] == wanted


def test_where_files_go() -> None:
    folder = Path("/w")
    assert choice.target_of(remote("a.pth"), folder) == Path("/w/a.pth")
    assert choice.target_of(remote("sub/a.pth"), folder) == Path("/w/sub/a.pth")
    assert choice.target_of(remote("model.safetensors"), folder) == Path("/w/rwkv7-1.5B-world/model.safetensors")
    assert choice.target_of(remote("config.json"), folder) == Path("/w/rwkv7-1.5B-world/config.json")


@given(
    st.text(max_size=30) | st.lists(st.sampled_from(["..", ".", "", "a.pth", "/", "\\", "~"]), max_size=5).map("/".join)
)
def test_no_path_leads_out_of_the_folder(path: str) -> None:
    try:
        target = choice.target_of(remote(path), Path("/w/x"))
    except WeightsError:
        return
    assert target.is_relative_to("/w/x")
    assert target != Path("/w/x")
    assert ".." not in target.parts


def test_how_a_file_stands_here(tmp_path: Path) -> None:
    sums, file = Sums(tmp_path / "cache"), remote("a.pth")
    assert choice.look(file, tmp_path, sums).state == "missing"
    part = choice.part_of(file, tmp_path / "a.pth")
    part.write_bytes(b"1234")
    found = choice.look(file, tmp_path, sums)
    assert (found.state, found.kept, found.left) == ("part", 4, 6)
    part.rename(tmp_path / "a.pth")
    assert choice.look(file, tmp_path, sums).state == "other"
    assert choice.look(remote("a.pth", 4), tmp_path, sums).state == "unhashed"


def test_one_place_for_two_files_is_refused(tmp_path: Path) -> None:
    sums = Sums(tmp_path)
    one, same = (choice.look(remote("a.pth", repo=repo), tmp_path, sums) for repo in ("a/x", "b/x"))
    assert len(choice.once([one, same])) == 1
    other = choice.look(remote("a.pth", repo="b/x", sha256="cd" * 32), tmp_path, sums)
    with pytest.raises(WeightsError, match=r"a/x and b/x both have a\.pth, and differ"):
        choice.once([one, other])


def test_what_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: asked.append(path) or Usage(0, 0, 5 << 30))
    folder = tmp_path / "not" / "yet"
    items = [Item(remote("a.pth", 6 << 30), folder / "a.pth", "part", 1 << 30)]
    assert choice.check_space(items, folder, 0) == 5 << 30
    assert asked == [tmp_path]
    with pytest.raises(
        WeightsError, match=r"has 5\.0 GiB free, and 5\.0 GiB are to be fetched \(256\.0 MiB stay spare\)"
    ):
        choice.check_space(items, folder, 256 << 20)
    here = [Item(remote("a.pth", 6 << 30), folder / "a.pth", "here", 6 << 30)]
    assert choice.check_space(here, folder, 1 << 40) == 5 << 30, "what is here takes no space"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3), ("0", 0), ("1.5", 1.5), ("99999", 300), ("-4", 0), ("", 0), ("soon", 0), ("nan", 0),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Fri, 21 Oct 2950 07:28:00 GMT", 300)],
)  # fmt: skip
def test_what_the_hub_asks_to_wait(text: str, seconds: float) -> None:
    assert retry_after({"Retry-After": text}) == seconds
    assert retry_after({}) == 0


def test_patience_has_an_end_and_grows() -> None:
    waits: list[float] = []

    def ask() -> object:
        raise HubError("no", passing=True, wait_s=3.0)

    with pytest.raises(HubError):
        persistently(ask, lambda seconds, _: waits.append(seconds))
    assert waits == [3.0, 3.0, 4.0]
    assert [backoff(number) for number in (1, 2, 3, 9)] == [1, 2, 4, 30]


def test_what_will_not_pass_is_not_asked_again() -> None:
    waits: list[float] = []

    def ask() -> object:
        raise HubError("never")

    with pytest.raises(HubError):
        persistently(ask, lambda seconds, _: waits.append(seconds))
    assert waits == []
