"""Files of the web against a server on loopback: cut connections, ranges, sums, redirects, the cache."""

import hashlib
import json
import os

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.benchmark import WebSource
from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare
from rwkv_data.prepare.sources import web as source

LINES = b"".join(b'{"n": %d}\n' % n for n in range(60_000))
SUM = hashlib.sha256(LINES).hexdigest()


@pytest.fixture
def served(web, monkeypatch):
    """A server with one file of lines, and no proxy in between; waits between attempts are short."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(source.time, "sleep", lambda _: None)
    (web.root / "rows.jsonl").write_bytes(LINES)
    return web


def rows(server, tmp_path, *names: str, sha256: tuple[str, ...] = (), report=source.silent):
    urls = tuple(f"{server.url}/{name}" for name in names or ("rows.jsonl",))
    raw = source.open_rows(WebSource(urls, sha256), tmp_path / "cache", "test", report)
    return raw, [row for _, row in raw.placed]


def test_a_file_is_fetched_once(served, tmp_path) -> None:
    told = []
    raw, found = rows(served, tmp_path, report=told.append)
    assert (raw.source, raw.revision) == (f"{served.url}/rows.jsonl", f"sha256:{SUM}")
    assert found[-1] == {"n": 59_999, "_file": "rows"}
    assert [(progress.step, progress.done, progress.total) for progress in told][-1] == (
        "fetch",
        len(LINES),
        len(LINES),
    )
    assert rows(served, tmp_path)[1] == found
    assert served.seen == ["GET /rows.jsonl"]


def test_a_cut_connection_goes_on_where_it_was_cut(served, tmp_path) -> None:
    served.cut_at = 200_000
    assert len(rows(served, tmp_path, sha256=(SUM,))[1]) == 60_000
    assert len(served.seen) == 2
    first = int(served.seen[1].removeprefix("GET /rows.jsonl bytes=").removesuffix("-"))
    assert 0 < first <= 200_000


def test_a_server_without_ranges_sends_all_of_it_again(served, tmp_path) -> None:
    served.cut_at, served.stubborn = 200_000, True
    assert len(rows(served, tmp_path, sha256=(SUM,))[1]) == 60_000


def test_what_an_earlier_run_had_is_used(served, tmp_path) -> None:
    part = source._place(tmp_path / "cache", f"{served.url}/rows.jsonl").with_name("rows.jsonl.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(LINES[:1000])
    assert len(rows(served, tmp_path, sha256=(SUM,))[1]) == 60_000
    part.write_bytes(LINES)
    part.with_name("rows.jsonl").unlink()
    assert len(rows(served, tmp_path, sha256=(SUM,))[1]) == 60_000
    assert served.seen == ["GET /rows.jsonl bytes=1000-", f"GET /rows.jsonl bytes={len(LINES)}-"]


def test_a_file_that_is_another_one_is_refused_and_forgotten(served, tmp_path) -> None:
    with pytest.raises(PrepareError, match=f"has the sha256 {SUM}, not {'0' * 64}"):
        rows(served, tmp_path, sha256=("0" * 64,))
    assert not list(tmp_path.glob("cache/web/*/rows.jsonl*"))


def test_a_damaged_cache_is_fetched_again(served, tmp_path) -> None:
    rows(served, tmp_path)
    (kept,) = tmp_path.glob("cache/web/*/rows.jsonl")
    kept.write_bytes(LINES[:-1])
    assert len(rows(served, tmp_path)[1]) == 60_000
    assert len(served.seen) == 2
    record = json.loads(kept.with_name("fetched.json").read_text())
    assert (record["sha256"], record["bytes"]) == (SUM, len(LINES))


def test_a_server_that_never_ends_a_file_is_given_up(served, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(source, "ATTEMPTS", 2)
    monkeypatch.setattr(source, "MOST_BYTES", 1000)
    with pytest.raises(PrepareError, match="more than the 1000 that are taken"):
        rows(served, tmp_path)


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("http://example.com/rows.jsonl", "only https is spoken"),
        ("https://10.0.0.7/rows.jsonl", "10.0.0.7 is no public address"),
        ("https://169.254.169.254/latest/rows.jsonl", "169.254.169.254 is no public address"),
        ("https://[::ffff:10.0.0.1]/rows.jsonl", "is no public address"),
        ("ftp://example.com/rows.jsonl", "only https is spoken"),
        ("file:///etc/passwd", "only https is spoken"),
        ("/rows.jsonl?again", "redirected more than 5 times"),
    ],
)
def test_redirects_lead_nowhere_private(served, tmp_path, where: str, complaint: str) -> None:
    served.redirects = {"/moved.jsonl": where, "/rows.jsonl?again": "/rows.jsonl?again"}
    with pytest.raises(PrepareError, match=complaint):
        rows(served, tmp_path, "moved.jsonl")


def test_redirects_are_followed(served, tmp_path) -> None:
    served.redirects = {"/moved.jsonl": "/rows.jsonl"}
    assert len(rows(served, tmp_path, "moved.jsonl")[1]) == 60_000


@pytest.mark.parametrize(
    "url", ["http://example.com/a.jsonl", "https://127.0.0.2/a.jsonl", "https://192.168.1.1/a.jsonl"]
)
def test_private_and_plain_addresses_are_not_asked(tmp_path, url: str) -> None:
    with pytest.raises(PrepareError, match="is not fetched"):
        source.open_rows(WebSource((url,)), tmp_path, "test")


@pytest.mark.parametrize(
    ("url", "sums"), [("https://a.b/", ()), ("https://a.b/x.exe", ()), ("https://a.b/x.csv", ("", ""))]
)
def test_sources_that_make_no_sense(tmp_path, url: str, sums: tuple[str, ...]) -> None:
    with pytest.raises(PrepareError):
        source.open_rows(WebSource((url,), sums), tmp_path, "test")


def test_missing_files_and_servers_are_one_line(served, tmp_path, monkeypatch) -> None:
    with pytest.raises(PrepareError, match=r"none\.jsonl cannot be fetched \(HTTP 404\)"):
        rows(served, tmp_path, "none.jsonl")
    monkeypatch.setattr(source, "ATTEMPTS", 2)
    with pytest.raises(PrepareError, match=r"cannot be fetched \(ConnectError"):
        source.open_rows(WebSource(("http://127.0.0.1:1/a.jsonl",)), tmp_path, "test")


def test_a_benchmark_with_rows_and_examples_on_the_web(served, tmp_path) -> None:
    from dataclasses import replace

    for name in ("test", "train"):
        (served.root / f"{name}.jsonl").write_text(json.dumps({"question": name, "answer": "#### 7"}))
    benchmark = replace(
        registry.load("gsm8k"),
        source=WebSource((f"{served.url}/test.jsonl",)),
        pool=WebSource((f"{served.url}/train.jsonl",)),
    )
    manifest = prepare(benchmark, tmp_path / "home" / "data")
    assert [row["question"] for row in prepared_sets.load_rows(tmp_path / "home" / "data", benchmark)] == ["test"]
    assert [row["question"] for row in prepared_sets.load_pool(tmp_path / "home" / "data", benchmark)] == ["train"]
    assert manifest.pool_source == f"{served.url}/train.jsonl"
    assert set(manifest.versions) == {"httpx", "rwkvctl"}
    assert len(list((tmp_path / "home" / "cache" / "web").iterdir())) == 2
