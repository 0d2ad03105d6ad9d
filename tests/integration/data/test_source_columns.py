"""Parquet and arrow files through the `datasets` library: types, packed files, damage, hostile metadata."""

import gzip
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import local

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.skipif(find_spec("datasets") is None, reason="needs datasets: not installed")

ROWS = [
    {
        "q": "None",
        "choices": {"text": ["N/A", None], "label": []},
        "nested": [[1, None], None] if n % 2 else None,
        "n": 2**63 - 1 - n,
        "big": 2**64 - 1,
        "at": datetime(2024, 8, 1, 12, 0, n, 5, tzinfo=UTC),
        "price": Decimal("0.10"),
        "bytes": b"\xff\x00",
        "word": "same",
        "nothing": None,
        "late": None if n < 30 else "here",
    }
    for n in range(40)
]
TYPES = {"big": pa.uint64(), "word": pa.dictionary(pa.int32(), pa.string())}


@cache
def all_types():
    """Rows of every type as a table; the first table of a process makes pyarrow import pandas."""
    return pa.table({name: pa.array([row[name] for row in ROWS], TYPES.get(name)) for name in ROWS[0]})


def arrow(what) -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, what.schema) as writer:
        writer.write_table(what, max_chunksize=9)
    return file.getvalue()


def parquet(what) -> bytes:
    file = io.BytesIO()
    pq.write_table(what, file, row_group_size=7)
    return file.getvalue()


def rows(path: Path):
    return [
        {name: value for name, value in row.items() if name != "_file"}
        for _, row in local.open_rows(path, (), "test").placed
    ]


def refused(path: Path) -> str:
    with pytest.raises(PrepareError) as caught:
        rows(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(path.name) == 1
    return str(caught.value)


@pytest.mark.parametrize(("ending", "written"), [("parquet", parquet), ("arrow", arrow)])
def test_every_type_comes_back_and_nothing_stays(tmp_path, monkeypatch, ending, written) -> None:
    temporary = tmp_path / "[t]"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    path = tmp_path / f"zip::x[1]*.{ending}"
    path.write_bytes(written(all_types()))
    assert rows(path) == ROWS
    assert [place for place, _ in local.open_rows(path, (), "test").placed][-1] == f"{path} row 40"
    assert not list(temporary.iterdir())
    assert not list(tmp_path.glob("**/*.lock"))


@pytest.mark.parametrize(("ending", "written"), [("parquet", parquet), ("arrow", arrow)])
def test_packed_files_and_members_come_back(tmp_path, ending, written) -> None:
    (tmp_path / f"x.{ending}.gz").write_bytes(gzip.compress(written(all_types())))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"data/test.{ending}", written(all_types()))
    assert rows(tmp_path / f"x.{ending}.gz") == rows(tmp_path / "x.zip") == ROWS


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "content",
    [b"", b"nothing of the kind", gzip.compress(b"{", mtime=0), b"PAR1PAR1", b"ARROW1\0\0"],
    ids=["empty", "text", "gzip", "parquet marks", "arrow mark"],
)
def test_damaged_files_are_one_line(tmp_path, capfd, ending: str, content: bytes) -> None:
    (tmp_path / f"x.{ending}").write_bytes(content)
    assert f"x.{ending} is damaged after row 0 (" in refused(tmp_path / f"x.{ending}")
    assert capfd.readouterr() == ("", "")


def test_a_file_that_ends_early_or_points_outside_of_itself_is_refused(tmp_path) -> None:
    path = tmp_path / "x.arrow"
    content = bytearray(arrow(pa.table({"x": ["aaaa", "bbbb", "cccc"]})))
    offsets = content.index(bytes([0, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0, 12, 0, 0, 0]))
    path.write_bytes(content[: offsets + 20])
    assert "is damaged after row 0" in refused(path)
    content[offsets + 8 : offsets + 12] = (2**30).to_bytes(4, "little")
    path.write_bytes(content)
    assert "is damaged after row 0 (Column 0: In chunk 0: Invalid: Offset" in refused(path)
    content = bytearray(arrow(pa.table({"x": ["aaaa", "bbbb", "cccc"]})))
    content[content.index(b"aaaa")] = 0xFF
    path.write_bytes(content)
    assert "Invalid UTF8" in refused(path)


@pytest.mark.parametrize("written", [parquet, arrow])
@pytest.mark.parametrize("metadata", [b"[", b"\xff", b'{"info": {"features": {"x": {"_type": "os.system"}}}}'],
                         ids=["json", "bytes", "type"])  # fmt: skip
def test_metadata_that_breaks_the_library_is_one_line(tmp_path, written, metadata: bytes) -> None:
    path = tmp_path / f"x.{written.__name__}"
    path.write_bytes(written(pa.table({"x": ["a"]}).replace_schema_metadata({"huggingface": metadata})))
    assert "the library `datasets` cannot read" in refused(path)


def test_a_type_that_the_library_does_not_know_is_refused(tmp_path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(parquet(pa.table({"x": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})))
    assert "cannot read" in refused(path)


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    path = tmp_path / "x.parquet"
    path.write_bytes(parquet(all_types()))
    with pytest.raises(PrepareError, match=r"reading parquet needs the extra rwkvctl\[daemon\]"):
        rows(path)


TRAP = """
import json, os, sys
from pathlib import Path
from rwkv_data.prepare.sources import local

def hook(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen", "os.system", "os.exec"}:
        raise SystemExit(f"{event} {arguments}")

sys.addaudithook(hook)
found = [row for path in sys.argv[1:] for _, row in local.open_rows(Path(path), (), "test").placed]
print(json.dumps([found, sorted({"torch", "PIL"} & sys.modules.keys()), os.environ["HF_HUB_DISABLE_TELEMETRY"]]))
"""


def test_what_metadata_calls_an_image_is_neither_decoded_nor_fetched(tmp_path) -> None:
    media, paths = {"bytes": None, "path": "http://127.0.0.1:9/x.png"}, []
    for kind in ("Image", "Audio", "Video", "Pdf"):
        metadata = {"info": {"features": {"x": {"_type": kind}, "many": {"_type": "List", "feature": {"_type": kind}}}}}
        what = pa.table(
            {"x": [media], "many": [[media]]},
            pa.schema({"x": (kept := pa.struct({"bytes": pa.binary(), "path": pa.string()})), "many": pa.list_(kept)}),
        ).replace_schema_metadata({"huggingface": json.dumps(metadata)})
        for written in (parquet, arrow):
            paths.append(tmp_path / f"{kind}.{written.__name__}")
            paths[-1].write_bytes(written(what))
    done = subprocess.run([sys.executable, "-c", TRAP, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, loaded, quiet = json.loads(done.stdout)
    assert found == [{"x": media, "many": [media], "_file": path.stem} for path in paths]
    assert (loaded, quiet) == ([], "1")
