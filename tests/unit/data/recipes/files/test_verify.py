"""Whether a file is what its lineage says, and the lineage is true."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_rows import FORMATS, NAMES, hostile_rows, lineage, plain_row

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.files import parquet_folder, verify
from rwkv_data.recipes.files.file_card import FileCard
from rwkv_data.recipes.files.lineage import SampleOrigin
from rwkv_data.recipes.files.row_files import FileOrder, names_of, write_rows
from rwkv_data.recipes.files.training_row import TrainingRow
from rwkv_data.recipes.files.verify import FileProblem


def as_said(samples: Sequence[SampleOrigin]) -> list[bool | None]:
    """A store in which every grade is what the lineage says."""
    return [sample.right for sample in samples]


def problems(path: Path) -> list[FileProblem]:
    return verify.verify(path, as_said)


def written(folder: Path, form: str, rows: list[TrainingRow]) -> Path:
    write_rows(FileOrder(to=folder / NAMES[form], format=form, card=FileCard(title="r3")), rows)
    return folder / NAMES[form]


@pytest.mark.parametrize("form", FORMATS)
def test_what_was_written_has_no_problem(tmp_path: Path, form: str) -> None:
    assert problems(written(tmp_path, form, hostile_rows(form, 60))) == []


@pytest.mark.parametrize("part", ["rows", "lineage"])
@pytest.mark.parametrize("form", FORMATS)
def test_any_changed_byte_is_found(tmp_path_factory: pytest.TempPathFactory, form: str, part: str) -> None:
    path = written(tmp_path_factory.mktemp("rows"), form, hostile_rows(form, 4))
    names = names_of(path, folder=form == "parquet")
    file = names.lineage if part == "lineage" else parquet_folder.shard_files(path)[0] if form == "parquet" else path
    whole = file.read_bytes()

    @settings(max_examples=60)
    @given(st.integers(0, len(whole) - 1), st.integers(1, 255))
    def check(at: int, change: int) -> None:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
        assert problems(path)

    check()
    for at in (*range(4), len(whole) - 3, len(whole) - 2, len(whole) - 1):  # what stands around the rows
        for byte in {0, 10, 32, 44, 93} - {whole[at]}:
            file.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            assert problems(path)
    for other in (whole[:-1], whole + b"\n", b"", whole[1:]):
        file.write_bytes(other)
        assert problems(path)
    file.write_bytes(whole)
    assert problems(path) == []


def test_the_line_of_a_changed_row_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, "sharegpt", [plain_row(f"Q{at}", "A", number=at) for at in range(50)])
    path.write_bytes(path.read_bytes().replace(b'"Q16"', b'"Q99"'))
    beside = names_of(path, folder=False).lineage
    beside.write_bytes(beside.read_bytes().replace(b"gsm8k_train/40", b"gsm8k_train/41"))
    assert [(one.line, one.text.split(":")[0]) for one in problems(path) if one.line] == [
        (17, "the row is not the one that the lineage tells of"),
        (41, "the line was changed after it was written"),
    ]
    assert [one.text.split(" is ")[0] for one in problems(path) if not one.line] == [str(path), str(beside)]


@pytest.mark.parametrize("form", ["sharegpt", "messages"])
def test_rows_that_are_missing_or_stand_elsewhere_are_found(tmp_path: Path, form: str) -> None:
    path = written(tmp_path, form, [plain_row(f"Q{at}", "A", number=at) for at in range(6)])
    beside = names_of(path, folder=False).lineage
    rows, lines = path.read_bytes(), beside.read_bytes().split(b"\n")

    def found(changed_rows: bytes, changed_lines: list[bytes]) -> dict[int, str]:
        path.write_bytes(changed_rows)
        beside.write_bytes(b"\n".join(changed_lines))
        return {one.line: one.text for one in reversed(problems(path))}

    assert "the row is not the one" in found(rows, [lines[1], lines[0], *lines[2:]])[1]
    assert "no line of lineage" in found(rows, [*lines[:5], b""])[6]
    both = rows.split(b"\n")
    del both[3 if form == "sharegpt" else 2]
    assert "the row is not the one" in found(b"\n".join(both), lines)[3]
    assert "no row" in found(b"\n".join(both), lines)[6]
    assert "ends after 5 rows, and 6 were written" in found(b"\n".join(both), lines[:2] + lines[3:])[6]


def test_both_files_reordered_alike_are_not_what_was_written(tmp_path: Path) -> None:
    path = written(tmp_path, "messages", [plain_row(f"Q{at}", "A", number=at) for at in range(6)])
    for file in (path, names_of(path, folder=False).lineage):
        first, second, *rest = file.read_bytes().split(b"\n")
        file.write_bytes(b"\n".join([second, first, *rest]))
    assert [one.line for one in problems(path)] == [0, 0]


def test_a_list_is_a_list(tmp_path: Path) -> None:
    path = written(tmp_path, "sharegpt", [plain_row(f"Q{at}", "A", number=at) for at in range(3)])
    whole = path.read_bytes()
    for changed, said in (
        (b"{" + whole[1:], "does not begin with a line ["),
        (whole[:-2], "does not end with a line ]"),
        (whole + b"{}\n", "goes on after the line ]"),
        (whole.replace(b",\n", b"\n"), "no comma between this row and the next"),
    ):
        path.write_bytes(changed)
        assert any(said in one.text for one in problems(path))


def test_shards_are_counted_and_a_changed_one_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_folder, "GROUP_ROWS", 5)
    monkeypatch.setattr(parquet_folder, "SHARD_BYTES", 1000)
    path = written(tmp_path, "parquet", [plain_row(f"Q{at}", "A" * 300, number=at) for at in range(20)])
    shards = parquet_folder.shard_files(path)
    assert len(shards) == 4
    assert problems(path) == []
    shutil.copy(shards[0], shards[3].with_name("train-00004-of-00004.parquet"))
    assert problems(path)[0].text == f"{path} has 5 files of rows, and 4 were written"
    shards[3].with_name("train-00004-of-00004.parquet").unlink()
    decoded: list[Path] = []
    monkeypatch.setattr(verify, "shard_lines", lambda shard: decoded.append(shard) or iter(()))
    shards[1].write_bytes(shards[0].read_bytes())
    assert f"{shards[1]} is not the file" in problems(path)[-1].text
    assert shards[1] not in decoded


def test_the_store_is_asked_about_every_sample(tmp_path: Path) -> None:
    rows = [plain_row("Q", "A", number=at) for at in range(700)]
    path = written(tmp_path, "messages", rows)
    asked: list[SampleOrigin] = []

    def store(samples: Sequence[SampleOrigin]) -> list[bool | None]:
        asked.extend(samples)
        return [{903: None, 1200: False}.get(one.row, one.right) for one in samples]

    assert verify.verify(path, store) == [
        FileProblem(4, "row 903 repeat 1 of j82 has no grade of the key g82"),
        FileProblem(301, "row 1200 repeat 1 of j82 is not right, and the lineage says right"),
    ]
    assert asked == [sample for row in rows for sample in row.lineage.samples]
    assert len(verify.verify(path, lambda samples: [None] * len(samples), most=5)) == 5


def test_an_answer_to_learn_is_right_and_a_rejected_one_need_not_be(tmp_path: Path) -> None:
    first = lineage().samples[0]
    wrong = [msgspec.structs.replace(first, use=use, right=False) for use in ("answer", "chosen", "rejected")]
    rows = [msgspec.structs.replace(plain_row("Q", "A"), lineage=lineage(samples=(sample,))) for sample in wrong]
    assert problems(written(tmp_path, "messages", rows)) == [
        FileProblem(1, "row 901 repeat 1 of j82 is not right, and is the answer of the row"),
        FileProblem(2, "row 901 repeat 1 of j82 is not right, and is the chosen of the row"),
    ]


def test_a_foreign_row_has_no_samples(tmp_path: Path) -> None:
    row = msgspec.structs.replace(plain_row("Q", "A"), lineage=lineage(samples=(), writers=()))
    assert problems(written(tmp_path, "messages", [row])) == []


@pytest.mark.parametrize("part", ["lineage", "card"])
@pytest.mark.parametrize("form", ["messages", "parquet"])
def test_a_missing_companion_is_said(tmp_path: Path, form: str, part: str) -> None:
    path = written(tmp_path, form, hostile_rows(form, 3))
    companion: Path = getattr(names_of(path, folder=form == "parquet"), part)
    companion.unlink()
    assert problems(path) == [FileProblem(0, f"{companion} is missing")]


def test_a_card_that_says_nothing_or_is_anothers_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, "messages", hostile_rows("messages", 3))
    card = names_of(path, folder=False).card
    text = card.read_text()
    for changed, said in (
        ("# none", "was changed: the head of the card does not say"),
        (text.replace('"messages"', '"csv"'), "was changed: there is no format 'csv'"),
        (text.replace('"messages"', '"parquet"'), "is that of another file: its format is parquet"),
    ):
        card.write_text(changed)
        assert said in problems(path)[0].text
    card.write_bytes(b"\xff")
    assert "was changed" in problems(path)[0].text


def test_what_is_not_there_cannot_be_verified(tmp_path: Path) -> None:
    with pytest.raises(PrepareError, match=r"none.json cannot be read: No such file or directory"):
        problems(tmp_path / "none.json")
