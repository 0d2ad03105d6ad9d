"""The files between runner and daemon: replaced whole, appended line by line, and readable after any cut."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.workers.run_directory import (
    FORMAT,
    EngineEndpoint,
    EngineList,
    JobSpec,
    Record,
    RunDir,
    SampleRecord,
    StageRecord,
    UnknownFormatError,
    decode_record,
    read_records,
    replace,
    whole_lines,
)

SPEC = JobSpec(
    job=12, attempt=3, earlier=(1, 2), model="m", benchmark="gsm8k", kind="cot", settings={"k": "4"}, seed=42,
    limit=None, repeats=4, data_dir="/data", rows_sha256="r", generation_key="g", grade_key="h",
)  # fmt: skip
SAMPLE = SampleRecord(row=1, repeat=0, value=1.0, reason="right", expected="4", extracted="4")
STAGE = StageRecord(row=1, repeat=0, stage=0, ids=(5, 6), text="2 + 2 = 4\n", stop="stop_token", prompt="Q: é\n")


def encode(*records: Record) -> bytes:
    return b"".join(msgspec.json.encode(record) + b"\n" for record in records)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    folder = RunDir(tmp_path)
    engines = EngineList(epoch=7, endpoints=(EngineEndpoint(engine="e7", socket="/run/e7.sock"),))
    folder.write_spec(SPEC)
    folder.write_engines(engines)
    folder.write_desired("stop")
    assert folder.read_spec() == SPEC
    assert folder.read_engines() == engines
    assert folder.read_desired() == "stop"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["desired", "engines.json", "job.json"]
    assert len({folder.samples(3), folder.record(3), folder.log(3), folder.samples(4)}) == 4


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "desired"
    replace(path, b"run")
    with path.open("rb") as held:
        replace(path, b"stop")
        assert held.read() == b"run"
    assert path.read_bytes() == b"stop"
    path.with_name("desired.tmp").write_bytes(b"half of it, from a writer that was killed")
    assert path.read_bytes() == b"stop"
    replace(path, b"run")
    assert path.read_bytes() == b"run"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "engines.json"
    replace(path, b"old")
    path.with_name("engines.json.tmp").mkdir()  # the temporary file cannot be made
    with pytest.raises(OSError, match="directory"):
        replace(path, b"new")
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("found", [FORMAT + 1, FORMAT + 7, -1])
@pytest.mark.parametrize("others", [{}, {"benchmark": 3, "rows": []}])
def test_another_format_is_refused_by_name_whatever_else_it_holds(
    tmp_path: Path, found: int, others: dict[str, Any]
) -> None:
    (tmp_path / "job.json").write_bytes(msgspec.json.encode({"format": found} | others))
    with pytest.raises(UnknownFormatError, match=f"has format {found}; this runner reads {FORMAT}"):
        RunDir(tmp_path).read_spec()


@pytest.mark.parametrize("found", [FORMAT, FORMAT - 1])
def test_this_format_and_the_one_before_are_read_with_unknown_fields_left_aside(tmp_path: Path, found: int) -> None:
    (tmp_path / "job.json").write_bytes(
        msgspec.json.encode(msgspec.to_builtins(SPEC) | {"format": found, "of a later version": 1})
    )
    assert RunDir(tmp_path).read_spec() == msgspec.structs.replace(SPEC, format=found)


def test_a_torn_last_line_is_left_for_later(tmp_path: Path) -> None:
    whole, torn = encode(STAGE, SAMPLE), encode(SAMPLE)[:-9]
    assert whole_lines(whole + torn) == (whole.split(b"\n")[:2], len(whole))
    assert whole_lines(torn) == ([], 0)
    assert whole_lines(b"") == ([], 0)
    path = tmp_path / "samples-1.jsonl"
    path.write_bytes(whole + torn)
    assert list(read_records(path)) == [STAGE, SAMPLE]
    assert not list(read_records(tmp_path / "samples-2.jsonl"))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"null",
        b'{"type":"sample"}',
        b'{"type":"other","row":1,"repeat":0}',
        b'{"type":"sample","row":"1","repeat":0,"value":1,"reason":"right"}',
        encode(SAMPLE)[:20] + encode(STAGE)[:-1],  # a torn line with another one glued to it
        encode(SAMPLE)[:-2] + b"\r",
        b'{"type":"sample","row":1,"repeat":0,"value":1,"reason":"\xff"}',  # not UTF-8
        b'{"type":"sample","row":1,"repeat":0,"value":1,"reason":"\\ud800"}',  # half of a surrogate pair
        b'{"type":"sample","row":1,"repeat":0,"value":1,"reason":"\xed\xa0\x80"}',
        b"\x00" * 50,  # what some file systems show after a power loss
    ],
)
def test_a_line_that_is_no_record_is_passed_over_wherever_it_is(tmp_path: Path, line: bytes) -> None:
    assert decode_record(line) is None
    path = tmp_path / "samples-1.jsonl"
    path.write_bytes(encode(STAGE) + line + b"\n" + encode(SAMPLE))
    assert list(read_records(path)) == [STAGE, SAMPLE]


NUMBERS = st.integers(0, 2**31)
IDS = st.lists(st.integers(0, 65535), max_size=8).map(tuple)
TEXT = st.text(max_size=40) | st.sampled_from(['"\\\n\r\t\b\f/', "\0", "\u2028\u2029\x85\x1c", "🐦", "\x1b[2J", "é"])
LOGPROBS = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4).map(tuple)
STAGES = st.builds(
    StageRecord, row=NUMBERS, repeat=NUMBERS, stage=st.integers(0, 3), ids=IDS, text=TEXT, stop=TEXT,
    choice=st.none() | NUMBERS, logprobs=LOGPROBS,
    prompt=st.none() | TEXT, prompt_ids=IDS, prompt_tokens=NUMBERS, cached=NUMBERS, generated=NUMBERS, engine=TEXT,
    seconds=st.floats(0, 1e9),
)  # fmt: skip
SAMPLES = st.builds(
    SampleRecord, row=NUMBERS, repeat=NUMBERS, value=st.none() | st.floats(0, 1), reason=TEXT, expected=TEXT,
    extracted=st.none() | TEXT, detail=TEXT,
)  # fmt: skip


@given(st.lists(STAGES | SAMPLES, max_size=6), st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_records_survive_the_file_and_any_way_of_reading_it_in_pieces(records: list[Record], steps: list[int]) -> None:
    """As the daemon reads: from an offset that only whole lines advance, while the file grows."""
    content = encode(*records)
    found: list[Record | None] = []
    offset = seen = turn = 0
    while offset < len(content):
        seen = min(len(content), seen + steps[turn % len(steps)])
        turn += 1
        lines, used = whole_lines(content[offset:seen])
        offset += used
        found += [decode_record(line) for line in lines]
    assert found == records


@given(st.lists(STAGES | SAMPLES, min_size=1, max_size=4), st.data())
def test_a_file_cut_anywhere_gives_the_records_before_the_cut(records: list[Record], data: st.DataObject) -> None:
    content = encode(*records)
    cut = data.draw(st.integers(0, len(content)))
    lines, _ = whole_lines(content[:cut])
    found = [decode_record(line) for line in lines]
    assert found == records[: content[:cut].count(b"\n")]


def test_a_written_file_is_whole_on_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bytes, bool]] = []
    sync = os.fsync

    def look(descriptor: int) -> None:
        sync(descriptor)
        seen.append(((tmp_path / "desired.tmp").read_bytes(), (tmp_path / "desired").exists()))

    monkeypatch.setattr(os, "fsync", look)
    RunDir(tmp_path).write_desired("run")
    assert seen == [(b"run", False)]
