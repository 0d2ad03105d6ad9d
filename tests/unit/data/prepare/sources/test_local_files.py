"""Files of the operator's: which of a folder are meant, what lies in archives, and what is refused."""

import contextlib
import gzip
import io
import json
import tarfile
import zipfile

import pytest

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import archives, local

LINE = '{"n": 1}\n'


def rows(path, *names: str, split: str = "test"):
    return [row for _, row in local.open_rows(path, names, split).placed]


@pytest.fixture
def folder(tmp_path):
    """Write files below a folder, given as {"path": text or bytes}; return the folder."""

    def write(files):
        for name, content in files.items():
            path = tmp_path / "raw" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / "raw"

    return write


def zipped(members) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def tarred(members, mode: str = "w:gz") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return file.getvalue()


def test_the_first_name_that_is_there_is_taken(folder) -> None:
    raw = folder({"b.jsonl": LINE, "c.jsonl": LINE * 2})
    assert len(rows(raw, "a.jsonl", "b.jsonl", "c.jsonl")) == 1
    assert len(rows(raw, "*.jsonl")) == 3
    assert local.open_rows(raw, ("*.jsonl",), "test").source == "*.jsonl"


def test_a_glob_reads_every_file_and_notes_which(folder) -> None:
    raw = folder({"bbh/b_task.json": '{"examples": [{"n": 2}]}', "bbh/a_task.json": '{"examples": [{"n": 1}]}'})
    assert rows(raw, "bbh/*.json") == [{"n": 1, "_file": "a_task"}, {"n": 2, "_file": "b_task"}]
    revision = local.open_rows(raw, ("bbh/*.json",), "test").revision
    assert revision.endswith(" of 2 files")
    (raw / "bbh/b_task.json").write_text('{"examples": [{"n": 3}]}')
    assert local.open_rows(raw, ("bbh/*.json",), "test").revision != revision


def test_a_folder_can_be_a_row(folder) -> None:
    raw = folder({"train/0002/question.txt": "Q2", "train/0001/question.txt": "Q1", "train/0001/io.json": '{"a": 1}'})
    found = rows(raw, "test/*/", "train/*/")
    assert found == [{"question": "Q1", "io": '{"a": 1}', "_file": "0001"}, {"question": "Q2", "_file": "0002"}]


@pytest.mark.parametrize(("name", "pack"), [("x.zip", zipped), ("x.tar.gz", tarred), ("x.tgz", tarred)])
def test_members_of_the_split_or_of_a_pattern(folder, name: str, pack) -> None:
    members = {
        "data/test/b_test.csv": "Q,1\n",
        "data/test/a_test.csv": "Q,2\n",
        "data/dev/a_dev.csv": "Q,3\n",
        "data/README.txt": "not rows",
        "__MACOSX/data/test/._a_test.csv": "junk",
    }
    raw = folder({name: pack(members)})
    assert [(row["_file"], row["cells"][1]) for row in rows(raw / name)] == [("a", "2"), ("b", "1")]
    assert [row["cells"][1] for row in rows(raw, f"{name}/dev/*.csv")] == ["3"]
    found = local.find_rows(raw / name, (f"other{name[1:]}/data/dev/*.csv",), "dev")
    assert found is not None
    assert [(place.rpartition("/")[2], row["cells"][1]) for place, row in found.placed] == [("a_dev.csv:1", "3")]


def test_examples_lie_in_beside_or_nowhere(folder) -> None:
    raw = folder({"test.jsonl": LINE, "train.jsonl": LINE * 3})
    beside = local.find_rows(raw / "test.jsonl", ("train.jsonl",), "train")
    assert beside is not None
    assert len(list(beside.placed)) == 3
    assert local.find_rows(raw / "test.jsonl", ("dev.jsonl",), "dev") is None
    assert local.find_rows(raw, (), "dev") is None


@pytest.mark.parametrize(
    "members", [{"../../etc/test.csv": "a,b\n"}, {"/test.csv": "a,b\n"}, {"test/../../x.csv": "a,b\n"}]
)
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_names_that_lead_outside_lead_nowhere(folder, tmp_path, members, pack) -> None:
    raw = folder({"raw.zip" if pack is zipped else "raw.tgz": pack(members)})
    before = sorted(tmp_path.rglob("*"))
    with contextlib.suppress(PrepareError):
        assert len(rows(next(raw.iterdir()))) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_links_and_devices_in_a_tar_are_not_followed(folder) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        link = tarfile.TarInfo("test.csv")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(PrepareError, match="holds no file of rows of the split 'test'"):
        rows(folder({"x.tar": file.getvalue()}) / "x.tar")


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.jsonl.gz"])
@pytest.mark.parametrize(
    "content",
    [b"", b"nothing of the kind", gzip.compress(b"{", mtime=0)[:-6], zipped({"test.csv": "a"})[:-9]],
    ids=["empty", "text", "cut-gzip", "cut-zip"],
)
def test_damaged_files_are_one_line(folder, name: str, content: bytes) -> None:
    raw = folder({name: content})
    if name == "x.jsonl.gz" and not content:
        assert rows(raw / name) == []
        return
    with pytest.raises(PrepareError) as caught:
        rows(raw / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_zip_with_a_password_is_refused(folder) -> None:
    content = bytearray(zipped({"test.csv": "a,b\n"}))
    central = content.index(b"PK\x01\x02")
    content[6] |= 1
    content[central + 8] |= 1
    with pytest.raises(PrepareError, match="is damaged \\(RuntimeError"):
        rows(folder({"x.zip": bytes(content)}) / "x.zip")


def test_too_many_members_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    with pytest.raises(PrepareError, match="holds 4 files"):
        archives.wanted([f"test/{n}.csv" for n in range(4)], "test", "", (".csv",), "x.zip")


def test_json_lines_of_several_files_have_their_own_lines(folder) -> None:
    raw = folder({"a.jsonl": LINE, "b.jsonl": LINE + "{"})
    with pytest.raises(PrepareError, match=r"b\.jsonl:2: not JSON"):
        rows(raw, "*.jsonl")


def test_json_keeps_order_of_files(folder) -> None:
    raw = folder({f"{n}.json": json.dumps([{"n": n}]) for n in (3, 1, 2)})
    assert [row["n"] for row in rows(raw, "*.json")] == [1, 2, 3]
