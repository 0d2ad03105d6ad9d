"""Workers that fail in a way that nobody foresaw."""

from pathlib import Path

import pytest

from rwkv_weights.errors import HubError
from rwkv_weights.hub.choice import Item
from rwkv_weights.hub.crew import Crew, as_they_end
from rwkv_weights.hub.remote import RemoteFile
from rwkv_weights.local.sha256_cache import Sums


class UnforeseenError(Exception):
    """An error that is no WeightsError, as a bug would raise it."""


def broken(*_: object) -> str:
    raise UnforeseenError


def refused() -> str:
    raise HubError("no")


def test_answers_and_refusals_come_with_their_number() -> None:
    found = dict(as_they_end([refused, lambda: "yes"], 2))
    assert isinstance(found[0], HubError)
    assert found[1] == "yes"


def test_what_nobody_foresaw_is_raised_as_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnforeseenError):
        list(as_they_end([lambda: "yes", broken, refused], 3))
    monkeypatch.setattr(Crew, "_outcome", broken)
    file = RemoteFile("o/n", "c" * 40, "a.pth", 1, "ab" * 32, "12" * 20)
    crew = Crew(None, [Item(file, tmp_path / "a.pth", "missing", 0)], Sums(tmp_path), 1)
    with pytest.raises(UnforeseenError):
        list(crew.work(lambda: None))
