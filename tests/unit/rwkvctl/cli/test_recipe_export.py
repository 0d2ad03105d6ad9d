"""What `recipe export` refuses before it asks the daemon, and how it hands rows on."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest

from rwkvctl.cli.commands import recipe
from rwkvctl.cli.parser import UsageError


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"format_": "messages", "push_to_hub": "lab/sky"}, "not messages: give --format parquet"),
        ({"format_": "sharegpt", "push_to_hub": ""}, "not sharegpt: give --format parquet"),
        ({"format_": "parquet", "public": True}, "--public is for a push to the hub: give --push-to-hub ORG/NAME"),
    ],
)
def test_a_push_that_cannot_be_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        recipe.recipe_export(SimpleNamespace(), "r3", to="sky", **given)  # type: ignore[arg-type]


def test_a_name_is_one_word_whatever_it_begins_with() -> None:
    assert recipe.push_words("-x/y", "parquet", public=True) == ["--push-to-hub=-x/y", "--public"]
    assert recipe.push_words("lab/sky", "parquet", public=False) == ["--push-to-hub=lab/sky"]
    assert recipe.push_words(None, "rwkv", public=False) == []


@pytest.mark.parametrize(("rows", "stays_open"), [(3, True), (4, False)])
def test_the_pipe_stays_open_unless_rows_are_missing(rows: int, stays_open: bool) -> None:
    """Who pushes them ends when it is closed, and waits for rows as long as it is open."""
    pages = {0: {"items": [{"n": 1}, {"n": 2}], "next": 2}, 2: {"items": [{"n": 3}], "next": -1}}
    client = SimpleNamespace(get=lambda _route, first, limit: SimpleNamespace(value=pages[first]))
    sent = list[bytes]()
    pipe = Pipe(sent)
    recipe.send(SimpleNamespace(client=client), "r3", {"rows": rows, "card": {}}, pipe)  # type: ignore[arg-type]
    assert pipe.closed != stays_open
    assert [json.loads(line) for line in b"".join(sent).splitlines()][1:] == [{"n": 1}, {"n": 2}, {"n": 3}]


class Pipe(io.RawIOBase):
    """Keeps what is written."""

    def __init__(self, sent: list[bytes]) -> None:
        self._sent = sent

    def write(self, piece: Any) -> int:
        self._sent.append(bytes(piece))
        return len(piece)
