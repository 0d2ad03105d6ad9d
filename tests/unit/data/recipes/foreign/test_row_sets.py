"""Rows of others as they are kept: which rows of a file, under which numbers, and that nothing is kept by halves."""

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_data.definition.errors import PrepareError, RowSetMissingError, SettingError
from rwkv_data.recipes.files.training_row import TrainingRow
from rwkv_data.recipes.foreign import row_sets
from rwkv_data.recipes.foreign.row_sets import FOLDER, RowSet
from rwkv_data.recipes.indexed_lines import IndexedLines
from rwkvctl.protocol.errors import RwkvctlError

BAD_ROW = {"instruction": "Q", "input": "", "output": ""}
EMPTY = "a turn or an answer is empty"
Plain = dict[str, Any]


def alpaca(number: int) -> Plain:
    return {"instruction": f"Q{number}", "input": "", "output": f"A{number}"}


def preference(number: int) -> Plain:
    return {"prompt": f"Q{number}", "chosen": "good", "rejected": "bad"}


def file_of(folder: Path, rows: Sequence[Plain], name: str = "chat.jsonl") -> Path:
    """A file of rows, in the form that its ending says."""
    path = folder / name
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    document = json.dumps(list(rows)).encode()
    path.write_bytes({".jsonl": lines, ".gz": gzip.compress(lines), ".json": document}[path.suffix])
    return path


def keep(folder: Path, path: Path, name: str = "chat", *, replace: bool = False, licence: str = "") -> RowSet:
    return row_sets.keep(name, path, folder / "data", licence=licence, replace=replace, report=lambda _: None)


def kept(folder: Path, name: str = "chat") -> list[TrainingRow]:
    with IndexedLines(row_sets.folder_of(folder / "data", name), row_sets.ROWS) as lines:
        every = list(lines.every())
        assert [lines.line(number) for number in range(len(lines))] == every
    return [msgspec.json.decode(line, type=TrainingRow) for line in every]


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """What lies in the data directory, and since when."""
    found = (folder / "data").rglob("*")
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in found if path.is_file()}


def numbers(rows: Sequence[TrainingRow]) -> list[str]:
    return [row.lineage.row_id for row in rows]


def test_rows_are_numbered_as_they_stand_in_the_file(tmp_path: Path) -> None:
    path = file_of(tmp_path, [alpaca(0), BAD_ROW, alpaca(2), BAD_ROW, {"text": "Q"}, alpaca(5)])
    found = keep(tmp_path, path, licence="MIT")
    rows = kept(tmp_path)
    assert numbers(rows) == ["chat/0", "chat/2", "chat/5"]
    assert [row.turns[1].text for row in rows] == ["A0", "A2", "A5"]
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert {row.lineage.rows_sha256 for row in rows} == {sha256}
    assert all(not row.lineage.samples and not row.lineage.writers and not row.problem for row in rows)
    lines = (row_sets.folder_of(tmp_path / "data", "chat") / "rows.jsonl").read_bytes()
    assert found == RowSet(
        format=row_sets.FORMAT, name="chat", source=str(path), source_sha256=sha256, licence="MIT", rows=3, pairs=False,
        left_out={EMPTY: 2, "the instruction or its input is no text": 1}, sha256=hashlib.sha256(lines).hexdigest(),
    )  # fmt: skip
    assert row_sets.row_set(tmp_path / "data", "chat") == found


@settings(max_examples=25)
@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_every_row_is_kept_or_counted(tmp_path_factory: pytest.TempPathFactory, good: list[bool]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    path = file_of(folder, [alpaca(number) if one else BAD_ROW for number, one in enumerate(good)])
    if not any(good):
        with pytest.raises(PrepareError, match=f"has no row that can be trained on: {EMPTY}"):
            keep(folder, path)
        return
    found = keep(folder, path)
    assert found.rows == len(kept(folder)) == sum(good)
    assert found.rows + sum(found.left_out.values()) == len(good)
    assert numbers(kept(folder)) == [f"chat/{number}" for number, one in enumerate(good) if one]


@pytest.mark.parametrize("name", ["chat.jsonl", "chat.jsonl.gz", "chat.json", "Chat.JSONL"])
def test_files_of_several_kinds(tmp_path: Path, name: str) -> None:
    path = file_of(tmp_path, [alpaca(0), alpaca(1)], "chat.jsonl" if name == "Chat.JSONL" else name)
    assert keep(tmp_path, path.rename(tmp_path / name)).rows == 2
    assert numbers(kept(tmp_path)) == ["chat/0", "chat/1"]


def test_a_table(tmp_path: Path) -> None:
    (tmp_path / "chat.csv").write_text('instruction,input,output\nQ0,,"A, 0"\nQ1,more,A1\n')
    keep(tmp_path, tmp_path / "chat.csv")
    assert [[turn.text for turn in row.turns] for row in kept(tmp_path)] == [["Q0", "A, 0"], ["Q1\nmore", "A1"]]


def test_pairs_are_known_for_pairs(tmp_path: Path) -> None:
    assert keep(tmp_path, file_of(tmp_path, [preference(0), {"prompt": "Q"}, preference(2)])).pairs
    assert [(row.chosen, row.rejected) for row in kept(tmp_path)] == [("good", "bad")] * 2


def test_the_same_file_again_changes_nothing(tmp_path: Path) -> None:
    path = file_of(tmp_path, [alpaca(0)])
    found = keep(tmp_path, path, licence="MIT")
    before = files(tmp_path)
    assert keep(tmp_path, path) == keep(tmp_path, path, licence="MIT") == found
    other = path.rename(tmp_path / "other.jsonl")
    assert keep(tmp_path, other) == found
    assert files(tmp_path) == before


def test_another_licence_of_the_same_file_is_noted(tmp_path: Path) -> None:
    path = file_of(tmp_path, [alpaca(0)])
    first = keep(tmp_path, path, licence="MIT")
    assert keep(tmp_path, path, licence="CC0") == msgspec.structs.replace(first, licence="CC0")
    assert row_sets.row_set(tmp_path / "data", "chat") == msgspec.structs.replace(first, licence="CC0")
    assert keep(tmp_path, path).licence == keep(tmp_path, path, replace=True).licence == "CC0"


def test_another_file_is_refused_and_taken_only_when_that_is_asked(tmp_path: Path) -> None:
    keep(tmp_path, file_of(tmp_path, [alpaca(0)]), licence="MIT")
    before, other = files(tmp_path), file_of(tmp_path, [preference(1)], "other.jsonl")
    with pytest.raises(PrepareError, match=r"the rows chat are there already, of another file \(.*chat.jsonl\)"):
        keep(tmp_path, other)
    assert files(tmp_path) == before
    found = keep(tmp_path, other, replace=True)
    assert (found.source, found.licence, found.pairs) == (str(other), "", True)
    assert numbers(kept(tmp_path)) == ["chat/0"]
    assert row_sets.row_set(tmp_path / "data", "chat") == found


def test_a_set_of_an_older_reader_is_read_anew(tmp_path: Path) -> None:
    path = file_of(tmp_path, [alpaca(0)])
    found = keep(tmp_path, path, licence="MIT")
    manifest = row_sets.folder_of(tmp_path / "data", "chat") / "manifest.json"
    manifest.write_bytes(msgspec.json.encode(msgspec.structs.replace(found, format=0, rows=7)))
    assert row_sets.row_set(tmp_path / "data", "chat") is None
    assert keep(tmp_path, path, licence="MIT") == found
    assert row_sets.row_set(tmp_path / "data", "chat") == found


def test_a_damaged_set_is_whole_again_once_its_file_is_read_again(tmp_path: Path) -> None:
    path = file_of(tmp_path, [alpaca(0)])
    found = keep(tmp_path, path)
    lines = row_sets.folder_of(tmp_path / "data", "chat") / "rows.jsonl"
    lines.write_bytes(lines.read_bytes()[:-9])
    assert keep(tmp_path, path, replace=True) == found
    assert hashlib.sha256(lines.read_bytes()).hexdigest() == found.sha256


def test_a_set_is_opened_with_what_it_is_or_missing(tmp_path: Path) -> None:
    found = keep(tmp_path, file_of(tmp_path, [alpaca(0)]))
    lines, there = row_sets.opened(tmp_path / "data", "chat")
    with lines:
        assert (len(lines), there) == (1, found)
    for gone in ("manifest.json", "rows.jsonl", "rows.index"):
        (row_sets.folder_of(tmp_path / "data", "chat") / gone).unlink()
        with pytest.raises(RowSetMissingError, match="there are no rows chat: `rwkvctl data rows FILE --name chat`"):
            row_sets.opened(tmp_path / "data", "chat")


def test_a_pair_of_one_answer_teaches_nothing(tmp_path: Path) -> None:
    path = file_of(tmp_path, [preference(0), preference(1) | {"rejected": "good"}])
    assert keep(tmp_path, path).left_out == {"both answers are the same": 1}


def broken(folder: Path, case: str) -> Path:
    """A file that cannot be kept: the first rows of some of them can."""
    path = folder / f"{case}.jsonl"
    good = json.dumps(alpaca(9)) + "\n"
    content = {
        "empty": "", "blank": "\n\n", "no usable row": json.dumps(BAD_ROW), "no form": '{"question": "Q"}',
        "torn": good + '{"instruction": "Q', "list": good + "[]", "bytes": good, "packed": good,
    }[case]  # fmt: skip
    path.write_bytes(content.encode() + (b"\xff\n" if case == "bytes" else b""))
    if case == "packed":
        path = path.rename(folder / "packed.jsonl.gz")
    return path


CASES = {
    "empty": "has no row that can be trained on$",
    "blank": "has no row that can be trained on$",
    "no usable row": f"has no row that can be trained on: {EMPTY}",
    "no form": r"no form.jsonl:1: the row does not say .* its fields are 'question', and none of",
    "torn": "torn.jsonl:2: not JSON",
    "list": "list.jsonl:2: not a JSON object",
    "bytes": "bytes.jsonl:2: not UTF-8",
    "packed": "packed.jsonl.gz is damaged",
}


@pytest.mark.parametrize("case", CASES)
def test_after_an_error_nothing_is_left(tmp_path: Path, case: str) -> None:
    with pytest.raises(RwkvctlError, match=CASES[case]):
        keep(tmp_path, broken(tmp_path, case))
    assert not row_sets.folder_of(tmp_path / "data", "chat").exists()
    assert row_sets.row_set(tmp_path / "data", "chat") is None


@pytest.mark.parametrize("case", CASES)
def test_after_an_error_the_old_set_is_there(tmp_path: Path, case: str) -> None:
    keep(tmp_path, file_of(tmp_path, [alpaca(0)]))
    before = files(tmp_path)
    with pytest.raises(RwkvctlError, match=CASES[case]):
        keep(tmp_path, broken(tmp_path, case), replace=True)
    assert files(tmp_path) == before


def test_a_file_that_is_written_to_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, [alpaca(0)])

    def written_to(_rows: int) -> None:
        with path.open("a") as file:
            file.write(json.dumps(alpaca(1)) + "\n")

    with pytest.raises(PrepareError, match=r"chat.jsonl changed while it was read; run this again"):
        row_sets.keep("chat", path, tmp_path / "data", licence="", replace=False, report=written_to)
    assert files(tmp_path) == {}


@pytest.mark.parametrize(
    "name",
    ["", "Chat", "7chat", "-chat", "chat.1", "../chat", "chat\n", "a" * 49, "chät", "chat٣", "r3", "r007"],
)
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    path = file_of(tmp_path, [alpaca(0)])
    with pytest.raises(SettingError, match="is no name for rows"):
        keep(tmp_path, path, name)
    assert not (tmp_path / "data").exists()
    assert row_sets.row_set(tmp_path / "data", name) is None


def test_a_path_that_is_no_plain_file_of_a_known_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.bin").write_bytes(b"{}")
    for path, says in (
        (tmp_path, "it is no plain file"),
        (tmp_path / "none.jsonl", "No such file or directory"),
        (tmp_path / "rows.bin", "rows.bin is none of .jsonl"),
    ):
        with pytest.raises(PrepareError, match=says):
            keep(tmp_path, path)
    assert not row_sets.folder_of(tmp_path / "data", "chat").exists()


def test_hostile_texts_stay_as_they_are_or_are_left_out(tmp_path: Path) -> None:
    texts = ["a\0b", "a\u2028b\x85c\r\nd", "\ud800", "long " * (9 << 18), "\x1b[2J", " \n\t"]
    path = file_of(tmp_path, [alpaca(0), *({"instruction": "Q", "output": text} for text in texts)])
    found = keep(tmp_path, path)
    assert path.stat().st_size > 9 << 20
    assert [row.turns[1].text for row in kept(tmp_path)] == ["A0", texts[0], texts[1], texts[4]]
    assert numbers(kept(tmp_path)) == ["chat/0", "chat/1", "chat/2", "chat/5"]
    assert found.left_out == {
        "a text holds half a character (a lone surrogate), which UTF-8 cannot hold": 1,
        "the row has more than 8,388,608 bytes": 1,
        EMPTY: 1,
    }


def test_a_field_of_half_a_character_does_not_matter(tmp_path: Path) -> None:
    keep(tmp_path, file_of(tmp_path, [alpaca(0) | {"\ud800": "\ud800"}]))
    assert numbers(kept(tmp_path)) == ["chat/0"]


def test_a_path_and_a_licence_that_are_no_utf_8_are_kept_as_they_are_shown(tmp_path: Path) -> None:
    path = file_of(tmp_path, [alpaca(0)]).rename(tmp_path / "\udcff.jsonl")
    found = keep(tmp_path, path, licence="\udcfe")
    assert (found.source, found.licence) == (f"{tmp_path}/\ufffd.jsonl", "\ufffd")
    assert row_sets.row_set(tmp_path / "data", "chat") == found


def test_sets_are_listed_by_name_and_what_is_none_is_not(tmp_path: Path) -> None:
    assert row_sets.row_sets(tmp_path / "data") == []
    for name in ("prefs", "chat"):
        keep(tmp_path, file_of(tmp_path, [alpaca(0)]), name)
    (tmp_path / "data" / FOLDER / "empty").mkdir()
    for name, manifest in (("torn", b"{"), ("list", b"[]"), ("bytes", b"\xff"), ("Chat", b"{}")):
        (tmp_path / "data" / FOLDER / name).mkdir()
        (tmp_path / "data" / FOLDER / name / "manifest.json").write_bytes(manifest)
    assert [found.name for found in row_sets.row_sets(tmp_path / "data")] == ["chat", "prefs"]


def test_it_is_said_how_many_rows_were_read(tmp_path: Path) -> None:
    told = list[int]()
    path = file_of(tmp_path, [alpaca(number) for number in range(1200)])
    row_sets.keep("chat", path, tmp_path / "data", licence="", replace=False, report=told.append)
    assert told == [0, 500, 1000]


@pytest.mark.parametrize("header", ["prompt,completion", "id,prompt,completion", "prompt,chosen,rejected"])
def test_a_table_is_read_by_its_header(tmp_path: Path, header: str) -> None:
    path = tmp_path / "chat.csv"
    path.write_text(f"{header}\n" + ",".join(f"x{number}" for number in range(header.count(",") + 1)) + "\n")
    assert keep(tmp_path, path).rows == 1
