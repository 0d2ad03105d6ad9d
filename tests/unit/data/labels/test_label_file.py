"""Labels on disk: published and read back, one file for each version, those of other rows and other files ignored."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rwkv_data.definition import row_filter
from rwkv_data.definition.errors import PrepareError, RowsDamagedError, SettingError
from rwkv_data.definition.row_filter import Scalar
from rwkv_data.labels import label_file
from rwkv_data.labels.label_file import LabelOrigin, LabelSet, StoredLabels, label_set, labels_of, publish, stamp

ROWS_SHA256 = "a" * 64
OTHER_SHA256 = "b" * 64
ORIGIN = LabelOrigin("imported/1", "levels.jsonl", {"without a value": 1, "not in the file": 0}, {"revision": "r"})
VALUES: list[Scalar | None] = [4, None, 7.5]
OTHERS: list[Scalar | None] = [1, 2, 3]


def described(values: list[Scalar | None], field: str = "level", rows_sha256: str = ROWS_SHA256) -> LabelSet:
    return label_set("mine", rows_sha256, field, ORIGIN, values)


def published(
    data_dir: Path, values: list[Scalar | None], field: str = "level", rows_sha256: str = ROWS_SHA256
) -> StoredLabels:
    return publish(data_dir, described(values, field, rows_sha256), values)


def long_ago(stored: StoredLabels, order: int) -> None:
    """Let a file be an old one, so that no clock has to be fine enough to tell it from the next."""
    os.utime(stored.path, ns=(order, order))


def read_back(data_dir: Path) -> list[StoredLabels]:
    return labels_of(data_dir, "mine", ROWS_SHA256)


def where(text: str) -> row_filter.RowFilter:
    parsed = row_filter.parse(text)
    assert parsed is not None
    return parsed


def test_published_labels_are_read_back(tmp_path: Path) -> None:
    stored = published(tmp_path, VALUES)
    assert read_back(tmp_path) == [stored]
    assert list(stored.column.values("level")) == VALUES


def test_the_file_is_named_by_its_field_and_its_sha256(tmp_path: Path) -> None:
    stored = published(tmp_path, VALUES)
    sha256 = hashlib.sha256(stored.path.read_bytes()).hexdigest()
    assert stored.path == tmp_path / "mine" / "labels" / f"level@{sha256}.jsonl"
    assert (stored.sha256, stored.name) == (sha256, f"level@{sha256[:8]}")
    assert [path.name for path in stored.path.parent.iterdir()] == [stored.path.name]


def test_the_first_line_says_what_they_are_and_a_column_follows(tmp_path: Path) -> None:
    first, rows, column = map(json.loads, published(tmp_path, VALUES).path.read_text().splitlines())
    assert first == {
        "labels": {
            "benchmark": "mine",
            "rows_sha256": ROWS_SHA256,
            "rows": 3,
            "field": "level",
            "kind": "number",
            "rule": "imported/1",
            "source": "levels.jsonl",
            "labelled": 2,
            "unlabelled": {"without a value": 1},
            "lowest": 4,
            "highest": 7.5,
            "facts": {"revision": "r"},
        }
    }
    assert rows == {"rows": 3}
    assert column == {"name": "level", "values": [4, 7.5], "codes": [1, 0, 2]}


def test_the_file_may_be_read_by_others(tmp_path: Path) -> None:
    assert published(tmp_path, VALUES).path.stat().st_mode & 0o777 == 0o644


def test_a_summary_says_the_version_and_what_they_are(tmp_path: Path) -> None:
    stored = published(tmp_path, VALUES)
    assert stored.summary() == {
        "name": stored.name,
        "field": "level",
        "benchmark": "mine",
        "kind": "number",
        "rule": "imported/1",
        "source": "levels.jsonl",
        "rows": 3,
        "labelled": 2,
        "unlabelled": {"without a value": 1},
        "lowest": 4,
        "highest": 7.5,
    }


@pytest.mark.parametrize(
    ("values", "kind", "ends"),
    [
        ([3, None, 1.5], "number", (1.5, 3)),
        (["hard", "easy"], "text", (None, None)),
        ([True, False], "true or false", (None, None)),
        ([1, "hard"], "mixed values", (None, None)),
    ],
)
def test_the_kind_is_what_all_values_are(values: list[Scalar | None], kind: str, ends: tuple[Any, Any]) -> None:
    labels = described(values)
    assert (labels.kind, (labels.lowest, labels.highest)) == (kind, ends)


def test_labels_without_a_value_are_refused_with_the_reasons() -> None:
    origin = LabelOrigin(
        "imported/1", "x", {"not in the file": 1200, "without a value": 2, "with several values": 0}, {}
    )
    with pytest.raises(SettingError) as caught:
        label_set("mine", ROWS_SHA256, "level", origin, [None] * 1202)
    assert str(caught.value) == "no row of mine would have a label: 1,200 not in the file, 2 without a value"


def test_labels_of_a_set_that_has_none_are_an_empty_list(tmp_path: Path) -> None:
    assert read_back(tmp_path) == []
    assert stamp(tmp_path, "mine") == ()


def test_the_same_labels_twice_are_one_file(tmp_path: Path) -> None:
    first, again = published(tmp_path, VALUES), published(tmp_path, VALUES)
    assert (first.path, first.sha256) == (again.path, again.sha256)
    assert read_back(tmp_path) == [again]


def test_another_version_is_the_newest(tmp_path: Path) -> None:
    first = published(tmp_path, VALUES)
    long_ago(first, 1)
    second = published(tmp_path, OTHERS)
    assert [one.sha256 for one in read_back(tmp_path)] == [first.sha256, second.sha256]


def test_the_same_labels_again_are_the_newest_again(tmp_path: Path) -> None:
    first, second = published(tmp_path, VALUES), published(tmp_path, OTHERS)
    long_ago(first, 1)
    long_ago(second, 2)
    published(tmp_path, VALUES)
    assert [one.sha256 for one in read_back(tmp_path)] == [second.sha256, first.sha256]


def test_labels_are_in_the_order_of_their_fields(tmp_path: Path) -> None:
    for order, field in enumerate(["topic", "age", "level"], 1):
        long_ago(published(tmp_path, VALUES, field), order)
    assert [one.labels.field for one in read_back(tmp_path)] == ["age", "level", "topic"]


def test_labels_of_other_rows_are_not_seen(tmp_path: Path) -> None:
    published(tmp_path, VALUES, rows_sha256=OTHER_SHA256)
    assert read_back(tmp_path) == []
    these = published(tmp_path, VALUES)
    assert read_back(tmp_path) == [these]


def test_labels_of_another_benchmark_are_not_seen_in_its_folder(tmp_path: Path) -> None:
    stored = published(tmp_path, VALUES)
    (tmp_path / "other" / "labels").mkdir(parents=True)
    (tmp_path / "other" / "labels" / stored.path.name).write_bytes(stored.path.read_bytes())
    assert labels_of(tmp_path, "other", ROWS_SHA256) == []


def test_a_file_under_the_name_of_another_field_is_ignored(tmp_path: Path) -> None:
    stored = published(tmp_path, VALUES)
    stored.path.rename(stored.path.with_name(f"topic@{stored.sha256}.jsonl"))
    assert read_back(tmp_path) == []


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "level.jsonl",
        f"level@{'0' * 63}.jsonl",
        f"level@{'G' * 64}.jsonl",
        f"Level@{'0' * 64}.jsonl",
        f"level@{'0' * 64}.jsonl.bak",
        f"level@{'0' * 64}.jsonl\n",
        f"@{'0' * 64}.jsonl",
        ".abc.part",
    ],
)
def test_files_with_other_names_are_ignored(tmp_path: Path, name: str) -> None:
    stored = published(tmp_path, VALUES)
    (stored.path.parent / name).write_bytes(stored.path.read_bytes())
    assert read_back(tmp_path) == [stored]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"garbage\n",
        b"\xff\xfe\x00\n",
        b"[]\n",
        b"{}\n",
        b'{"labels": 5}\n',
        b'{"labels": {"field": "level"}}\n',
        b'{"rows":3}\n',
        b'{"labels": ' + b"[" * 5000,
    ],
    ids=["empty", "blank", "garbage", "bytes", "list", "nothing", "number", "too little", "column", "deep"],
)
def test_files_whose_first_line_tells_no_labels_are_ignored(tmp_path: Path, content: bytes) -> None:
    stored = published(tmp_path, VALUES)
    (stored.path.parent / f"level@{'0' * 64}.jsonl").write_bytes(content)
    assert read_back(tmp_path) == [stored]


def test_a_folder_under_the_name_of_labels_is_ignored(tmp_path: Path) -> None:
    stored = published(tmp_path, VALUES)
    (stored.path.parent / f"level@{'0' * 64}.jsonl").mkdir()
    assert read_back(tmp_path) == [stored]


def test_what_cannot_be_read_hides_nothing_else(tmp_path: Path) -> None:
    stored = published(tmp_path, VALUES)
    for name, target in ((".#lock", "nowhere"), (f"a@{'0' * 64}.jsonl", "nowhere"), (f"b@{'0' * 64}.jsonl", "")):
        path = stored.path.parent / name
        path.symlink_to(target or path)
    os.mkfifo(stored.path.parent / f"c@{'0' * 64}.jsonl")
    assert read_back(tmp_path) == [stored]
    before = stamp(tmp_path, "mine")
    assert published(tmp_path, OTHERS) == read_back(tmp_path)[-1]
    assert stamp(tmp_path, "mine") != before


def test_the_labels_published_last_are_the_newest_on_a_coarse_clock(tmp_path: Path) -> None:
    future = 4_000_000_000 * 10**9
    for values in ([1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 2, 3]):
        stored = published(tmp_path, list(values))
        assert read_back(tmp_path)[-1] == stored
        os.utime(stored.path, ns=(future, future))


def test_an_origin_that_is_too_long_to_read_back_is_refused(tmp_path: Path) -> None:
    facts = {f"j{number}": "f" * 64 for number in range(20_000)}
    with pytest.raises(PrepareError, match="name fewer jobs at once"):
        publish(tmp_path, label_set("mine", ROWS_SHA256, "level", ORIGIN._replace(facts=facts), VALUES), VALUES)
    assert not (tmp_path / "mine").exists()


def test_a_folder_of_labels_that_is_a_file_has_none(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "labels").write_text("")
    assert read_back(tmp_path) == []
    assert stamp(tmp_path, "mine") == ()


def test_labels_that_cannot_be_written_are_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "labels").write_text("")
    with pytest.raises(PrepareError) as caught:
        published(tmp_path, VALUES)
    assert str(caught.value) == f"{tmp_path / 'mine' / 'labels'} cannot be written: File exists"


def test_labels_that_break_off_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = published(tmp_path, VALUES)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(label_file.os, "fsync", full)
    with pytest.raises(PrepareError, match=r"labels cannot be written: No space left on device$"):
        published(tmp_path, OTHERS)
    assert list(before.path.parent.iterdir()) == [before.path]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda content: content.replace(b'"values":[4,', b'"values":[5,'), "other sha256"),
        (lambda content: content.replace(b'"codes":[1,0,2]', b'"codes":[2,0,1]'), "other sha256"),
        (lambda content: content.replace(b'"codes":[1,0,2]', b'"codes":[1,0,9]'), "does not fit its rows"),
        (lambda content: content.replace(b"levels.jsonl", b"others.jsonl"), "other sha256"),
        (lambda content: content[: content.index(b'{"name"')], "other sha256"),
    ],
    ids=["value", "codes", "code too high", "origin", "cut"],
)
def test_a_file_that_was_changed_is_refused_when_it_is_matched(
    tmp_path: Path, damage: Callable[[bytes], bytes], says: str
) -> None:
    path = published(tmp_path, VALUES).path
    path.write_bytes(damage(path.read_bytes()))
    (found,) = read_back(tmp_path)
    with pytest.raises(RowsDamagedError) as caught:
        found.column.matching(where("level>=4"))
    assert says in str(caught.value)
    assert str(caught.value).endswith(f"; remove the file, and make the labels again: {found.name}")


def test_a_file_that_was_removed_is_refused_when_it_is_matched(tmp_path: Path) -> None:
    stored = published(tmp_path, VALUES)
    stored.path.unlink()
    with pytest.raises(RowsDamagedError, match=r"cannot be read \(No such file or directory\); remove the file"):
        stored.column.matching(where("level>=4"))


@pytest.mark.parametrize("name", ["level", "l", "pass-rate_2", "x" * 48])
def test_good_names_are_taken(name: str) -> None:
    label_file.check_field(name, {"question": "text"})


@pytest.mark.parametrize(
    "name",
    ["", "Level", "2level", "-level", "_level", "le vel", "level@1a2b3c4d", "level=", "lével", "level\n", "a/b", ".."],
)
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(SettingError) as caught:
        label_file.check_field(name, {})
    assert str(caught.value) == (
        f"{name!r} is no name for labels: small letters, digits, - and _, at most 48, a letter first"
    )


def test_a_name_that_is_too_long_is_refused_and_shown_in_part() -> None:
    with pytest.raises(SettingError) as caught:
        label_file.check_field("x" * 49, {})
    assert "is no name for labels" in str(caught.value)
    with pytest.raises(SettingError) as caught:
        label_file.check_field("x" * 5000, {})
    assert len(str(caught.value)) < 200


def test_the_name_of_a_field_that_the_rows_have_is_refused() -> None:
    with pytest.raises(SettingError) as caught:
        label_file.check_field("question", {"question": "text"})
    assert str(caught.value) == (
        "the rows have a field 'question' of their own; give the labels another name with --field"
    )


def test_the_stamp_changes_when_labels_are_published_and_when_they_are_removed(tmp_path: Path) -> None:
    stamps = [stamp(tmp_path, "mine")]
    first = published(tmp_path, VALUES)
    long_ago(first, 1)
    stamps.append(stamp(tmp_path, "mine"))
    published(tmp_path, VALUES)
    stamps.append(stamp(tmp_path, "mine"))
    second = published(tmp_path, OTHERS)
    stamps.append(stamp(tmp_path, "mine"))
    assert stamp(tmp_path, "mine") == stamps[-1]
    first.path.unlink()
    stamps.append(stamp(tmp_path, "mine"))
    second.path.unlink()
    assert len(set(stamps)) == 5
    assert stamp(tmp_path, "mine") == stamps[0]
