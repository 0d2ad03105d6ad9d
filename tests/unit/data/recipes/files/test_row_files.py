"""Files of training rows as they lie: what is in them, what is refused, and that nothing is written by halves."""

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_rows import (
    FORMATS,
    NAMES,
    PAIR_ROWS,
    PAIRS,
    PLAIN_ROWS,
    chat_text,
    hostile_rows,
    pair_row,
    plain_row,
    read,
    said_in,
)

from rwkv_data.definition.errors import PrepareError, RowError, SettingError
from rwkv_data.recipes.files import parquet_folder
from rwkv_data.recipes.files.file_card import FileCard, stamp_of
from rwkv_data.recipes.files.row_files import FileOrder, WrittenFiles, write_rows
from rwkv_data.recipes.files.training_row import TrainingRow
from rwkvctl.protocol.errors import RefusedError

CARD = FileCard(title="r3")


def written(folder: Path, form: str, rows: list[TrainingRow], **options: str | bool) -> WrittenFiles:
    return write_rows(FileOrder(to=folder / NAMES[form], format=form, card=CARD, **options), rows)  # type: ignore[arg-type]


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def one_row(form: str) -> TrainingRow:
    return pair_row("Q", "A", "B") if form in PAIRS else plain_row("Q", "A")


@pytest.mark.parametrize("roles", ["human/gpt", "user/assistant"])
@pytest.mark.parametrize("form", [form for form in FORMATS if form != "parquet"])
def test_another_reader_gives_the_rows_again(tmp_path_factory: pytest.TempPathFactory, form: str, roles: str) -> None:
    if roles != "human/gpt" and not form.startswith("sharegpt"):
        return

    @settings(max_examples=25)
    @given(st.lists(PAIR_ROWS if form in PAIRS else PLAIN_ROWS, min_size=1, max_size=5))
    def check(rows: list[TrainingRow]) -> None:
        files = written(tmp_path_factory.mktemp("rows"), form, rows, roles=roles)
        found = read(form, files.names.rows, roles)
        if form == "rwkv":
            expected = [
                ([(role, chat_text(said)) for role, said in said_in(row)[0] if said.strip()], []) for row in rows
            ]
            assert found == expected
        else:
            assert found == [said_in(row) for row in rows]

    check()


def test_a_megabyte_in_a_turn(tmp_path: Path) -> None:
    row = plain_row("\x00\u2028\n" * 400_000 + "Q", "long " * 200_000)
    assert read("messages", written(tmp_path, "messages", [row]).names.rows) == [said_in(row)]


@pytest.mark.parametrize("form", FORMATS)
def test_lineage_and_card_stand_beside_the_rows_or_in_their_folder(tmp_path: Path, form: str) -> None:
    rows = hostile_rows(form, 7)
    files = written(tmp_path, form, rows)
    name = NAMES[form]
    inside = {f"{name}/data/train-00000-of-00001.parquet", f"{name}/lineage.jsonl", f"{name}/README.md"}
    beside = {name, f"{name}.lineage.jsonl", f"{name}.card.md"}
    assert content(tmp_path).keys() == (inside if form == "parquet" else beside)
    lines = [json.loads(line) for line in files.names.lineage.read_bytes().split(b"\n")[:-1]]
    assert [line["row_id"] for line in lines] == [row.lineage.row_id for row in rows]
    assert stamp_of(files.names.card.read_text()) == files.stamp
    assert (files.stamp.format, files.stamp.rows) == (form, 7)
    assert ("dataset_info" in files.names.card.read_text()) == form.startswith("sharegpt")


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_rows_are_the_same_bytes(tmp_path: Path, form: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        written(tmp_path / name, form, hostile_rows(form, 40))
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_the_same_rows_are_the_same_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_folder, "GROUP_ROWS", 7)
    monkeypatch.setattr(parquet_folder, "SHARD_BYTES", 2000)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        written(tmp_path / name, "parquet", hostile_rows("parquet", 60))
    assert content(tmp_path / "a") == content(tmp_path / "b")
    shards = parquet_folder.shard_files(tmp_path / "a" / "t")
    assert len(shards) > 3
    found = [json.loads(line) for shard in shards for line in parquet_folder.shard_lines(shard)]
    assert [one["messages"][-1]["content"] for one in found] == [
        row.turns[-1].text for row in hostile_rows("parquet", 60)
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_replaced_unless_that_is_asked_for(tmp_path: Path, form: str) -> None:
    written(tmp_path, form, [one_row(form)])
    before = content(tmp_path)
    with pytest.raises(RefusedError, match="already exists and was not changed"):
        written(tmp_path, form, [one_row(form)] * 2)
    assert content(tmp_path) == before
    files = written(tmp_path, form, [one_row(form)] * 2, replace=True)
    assert content(tmp_path).keys() == before.keys()
    assert stamp_of(files.names.card.read_text()).rows == 2
    assert not list(tmp_path.glob(".*"))


def test_a_folder_with_the_same_bytes_is_kept_where_that_is_asked_for(tmp_path: Path) -> None:
    first = written(tmp_path, "parquet", [plain_row("Q", "A")])
    (tmp_path / "t" / "notes").write_text("mine")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = written(tmp_path, "parquet", [plain_row("Q", "A")], keep_same=True)
    assert (again.kept, again.stamp, first.kept) == (True, first.stamp, False)
    with pytest.raises(RefusedError, match="already exists with other rows"):
        written(tmp_path, "parquet", [plain_row("Q", "B")], keep_same=True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert not written(tmp_path, "parquet", [plain_row("Q", "B")], keep_same=True, replace=True).kept
    (tmp_path / "t" / "data" / "train-1.parquet").write_bytes(b"")
    with pytest.raises(RefusedError, match="already exists with other rows"):
        written(tmp_path, "parquet", [plain_row("Q", "B")], keep_same=True)


@pytest.mark.parametrize("end", [".lineage.jsonl", ".card.md"])
def test_a_file_with_the_name_of_lineage_or_card_is_not_replaced_either(tmp_path: Path, end: str) -> None:
    (tmp_path / f"t.jsonl{end}").write_text("mine")
    with pytest.raises(RefusedError, match="already exists"):
        written(tmp_path, "messages", [plain_row("Q", "A")])
    assert content(tmp_path) == {f"t.jsonl{end}": b"mine"}


def test_a_folder_that_no_export_wrote_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "thesis.tex").write_text("mine")
    with pytest.raises(RefusedError, match="was not written by an export and is not replaced"):
        written(tmp_path, "parquet", [plain_row("Q", "A")], replace=True)
    (tmp_path / "t.jsonl").mkdir()
    with pytest.raises(RefusedError, match="is a folder and cannot be replaced by a file"):
        written(tmp_path, "messages", [plain_row("Q", "A")], replace=True)
    assert content(tmp_path) == {"t/thesis.tex": b"mine"}
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("form", FORMATS)
def test_after_an_error_nothing_is_there(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = plain_row("Q", "A") if one_row(form).is_pair else pair_row("Q", "A", "B")
    with pytest.raises(RowError, match=r"row 2 \(gsm8k_train/1\): |rows with one answer and rows with two"):
        written(tmp_path, form, [one_row(form), other])
    with pytest.raises(PrepareError, match=r"there are no rows to write to .*; nothing was written"):
        written(tmp_path, form, [])

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PrepareError, match="cannot be written: No space left on device; nothing was"):
        written(tmp_path, form, [one_row(form)])
    assert not list(tmp_path.iterdir())


def test_a_name_that_no_reader_would_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="by the ending"):
        write_rows(FileOrder(to=tmp_path / "t.txt", format="rwkv", card=CARD), [plain_row("Q", "A")])
