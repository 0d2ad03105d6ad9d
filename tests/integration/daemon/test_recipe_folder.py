"""The rows of a recipe by their index, and that a making that was cut off has made nothing."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_daemon.recipes.recipe_folder import MadeRows, RecipeFolder
from rwkv_data.recipes.indexed_lines import LineWriter

LINES = st.lists(st.binary(max_size=9).map(lambda line: line + b"\n"), max_size=9)


def made(folder: RecipeFolder, lines: list[bytes]) -> None:
    folder.begin()
    with LineWriter(folder.new, "rows") as rows:
        for line in lines:
            rows.add(line)
    folder.finish(MadeRows(rows=len(lines), funnel=(), card={"title": "r1"}))


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=9).map(lambda line: line + b"\n"), max_size=9), st.integers(0, 12), st.integers(0, 12)
)
def test_rows_are_read_from_any_place(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], first: int, most: int
) -> None:
    folder = RecipeFolder(tmp_path_factory.mktemp("r") / "r1")
    made(folder, lines)
    with folder.lines("rows") as there:
        assert len(there) == len(lines)
        assert list(there.some(first, most, 10**6)) == lines[first : first + most]
        found = list(there.some(first, most, 12))
    assert found == lines[first : first + len(found)]
    if first < len(lines) and most:
        assert found, "one row is given however long it is"
        assert len(found) == 1 or sum(map(len, found)) <= 12


def test_what_is_being_made_counts_only_once_it_is_whole(tmp_path: Path) -> None:
    folder = RecipeFolder(tmp_path / "r1")
    assert folder.result() is None
    folder.begin()
    with LineWriter(folder.new, "rows") as rows:
        rows.add(b"half\n")
    assert folder.result() is None
    made(folder, [b"whole\n"])
    assert folder.result() == MadeRows(rows=1, funnel=(), card={"title": "r1"})
    with folder.lines("rows") as there:
        assert list(there.some(0, 5, 100)) == [there.line(0)] == list(there.every()) == [b"whole\n"]
    folder.begin()
    assert folder.result() is None, "it is made anew"
    folder.remove()
    assert not folder.path.exists()


def test_a_result_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    folder = RecipeFolder(tmp_path / "r1")
    made(folder, [b"x\n"])
    (folder.made / "result.json").write_bytes(b'{"rows": "many"}')
    assert folder.result() is None
