"""Prepared rows: written whole, read verified, named when damaged."""

import hashlib
import json

import pytest

from rwkv_data import prepare as prepare_module
from rwkv_data import registry, rows, sets
from rwkv_data.errors import PrepareError, RowError, RowsDamagedError, RowsMissingError
from rwkv_data.prepare import prepare

GSM8K = registry.load("gsm8k")
RAW = [
    {"question": "How much?", "answer": "2 + 1 = 3\n#### 3"},
    {"question": "线\u2028和\x85\f?", "answer": "#### -1,234"},
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "raw" / "test.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(raw) + "\n" for raw in RAW))
    return path


@pytest.fixture
def data_dir(tmp_path, source):
    prepare("gsm8k", tmp_path / "data", source)
    return tmp_path / "data"


def test_rows_come_back_as_converted(data_dir) -> None:
    assert sets.load_rows(data_dir, GSM8K) == [
        {"question": "How much?", "answer": "3", "solution": "2 + 1 = 3"},
        {"question": "线\u2028和\x85\f?", "answer": "-1234", "solution": ""},
    ]


def test_the_manifest_says_what_they_are(data_dir, source) -> None:
    manifest = sets.read_manifest(data_dir, "gsm8k")
    assert manifest is not None
    content = (data_dir / "gsm8k" / "test.jsonl").read_bytes()
    assert manifest.sha256 == hashlib.sha256(content).hexdigest()
    assert (manifest.benchmark, manifest.split, manifest.rows, manifest.rows_complete) == ("gsm8k", "test", 2, 1319)
    assert not manifest.complete
    assert manifest.source == "test.jsonl"
    assert manifest.revision == "sha256:" + hashlib.sha256(source.read_bytes()).hexdigest()
    assert (manifest.format, manifest.benchmark_version, manifest.licence) == (1, 1, "MIT")
    assert manifest.created.endswith("+00:00")


def test_preparing_again_gives_the_same_bytes_and_leaves_nothing_else(data_dir, source) -> None:
    before = sets.read_manifest(data_dir, "gsm8k")
    prepare("gsm8k", data_dir, source.parent)
    after = sets.read_manifest(data_dir, "gsm8k")
    assert before is not None
    assert after is not None
    assert after.sha256 == before.sha256
    assert sorted(path.name for path in (data_dir / "gsm8k").iterdir()) == ["manifest.json", "test.jsonl"]


def test_never_prepared(tmp_path) -> None:
    assert sets.read_manifest(tmp_path, "gsm8k") is None
    with pytest.raises(RowsMissingError, match="run `rwkvctl data prepare gsm8k`"):
        sets.load_rows(tmp_path, GSM8K)


def damaged(data_dir) -> str:
    with pytest.raises(RowsDamagedError) as caught:
        sets.load_rows(data_dir, GSM8K)
    assert "run `rwkvctl data prepare gsm8k`" in str(caught.value)
    return str(caught.value)


def test_damage_is_found_and_named(data_dir) -> None:
    path = data_dir / "gsm8k" / "test.jsonl"
    path.write_bytes(path.read_bytes().replace(b"3", b"4", 1))
    assert f"{path} is not what its manifest says" in damaged(data_dir)
    path.unlink()
    assert f"{path} is gone" in damaged(data_dir)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rows": 3}, "has 2 rows, its manifest says 3"),
        ({"format": 2}, "has format 2, this version reads 1"),
        ({"benchmark_version": 0}, "were prepared for version 0 of the benchmark, this is 1"),
        ({"sha256": 5}, "is no manifest"),
    ],
)
def test_a_manifest_that_does_not_fit(data_dir, change: dict[str, int], complaint: str) -> None:
    path = data_dir / "gsm8k" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert complaint in damaged(data_dir)


def test_rows_that_no_longer_fit_the_benchmark_are_named_by_line(data_dir) -> None:
    path, manifest = data_dir / "gsm8k" / "test.jsonl", data_dir / "gsm8k" / "manifest.json"
    lines = path.read_bytes().split(b"\n")
    content = b"\n".join([lines[0], b'{"question":"Q","answer":"many"}', b""])
    path.write_bytes(content)
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"sha256": hashlib.sha256(content).hexdigest()}))
    assert f"{path}:2: 'answer' is 'many', not a number" in damaged(data_dir)


def test_dying_between_the_files_leaves_it_unprepared(data_dir, source, monkeypatch) -> None:
    def dies(path, content) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare_module, "_replace", dies)
    with pytest.raises(KeyboardInterrupt):
        prepare("gsm8k", data_dir, source)
    assert sets.read_manifest(data_dir, "gsm8k") is None


def test_a_place_that_cannot_be_written(tmp_path, source) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(PrepareError, match="cannot be written"):
        prepare("gsm8k", tmp_path / "data", source)


@pytest.mark.parametrize("name", ["demo_arith", "demo_choice"])
def test_built_in_rows_need_no_preparation(name: str, tmp_path) -> None:
    benchmark, manifest = registry.load(name), sets.read_manifest(tmp_path, name)
    loaded = sets.load_rows(tmp_path, benchmark)
    assert manifest is not None
    assert manifest.sha256 == hashlib.sha256(b"".join(map(rows.canonical, loaded))).hexdigest()
    assert (manifest.rows, manifest.complete, manifest.source) == (300, True, "built in")
    with pytest.raises(PrepareError, match="needs no preparation"):
        prepare(name, tmp_path)


def test_canonical_lines() -> None:
    assert rows.canonical({"b": "é\n", "a": 1}) == '{"a":1,"b":"é\\n"}\n'.encode()
    with pytest.raises(RowError, match="not Unicode"):
        rows.canonical({"a": "\ud800"})
