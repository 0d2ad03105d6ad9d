"""What a rewriting finds of its originals, whatever their files look like, and what it makes of replies."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkv_daemon.runner.rewriting import Rewriting, open_rewriting
from rwkv_daemon.runner.work_left import SampleUnit, open_work
from rwkv_daemon.workers.run_directory import JobSpec, Record, RewritingSource, SampleRecord, StageRecord
from rwkv_data.benchmarks.demo_arith import BENCHMARK
from rwkv_data.definition.errors import RowsDamagedError, SettingError

KIND = BENCHMARK.default_kind
ROWS = [{"question": f"{number}+1=", "answer": str(number + 1)} for number in range(4)]
THOUGHT = "one and one and then one more makes three of them"


def stage(row: int, text: str = f"{THOUGHT} \\boxed{{3}}", **more: Any) -> StageRecord:
    return StageRecord(row=row, repeat=0, stage=0, text=text, stop="stop_token", generated=9, **more)


def write(path: Path, *records: Record, torn: bytes = b"") -> None:
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records) + torn)


def opened(folder: Path, *, right: tuple[int, ...] = (0, 1), rule: str = "thought-solution/1") -> Rewriting:
    source = RewritingSource(
        rule=rule, name="j7", folder=str(folder), attempts=(1, 2), right=tuple((row, 0) for row in right)
    )
    spec = JobSpec(
        job=9, attempt=1, earlier=(), model="writer", benchmark="demo_arith", kind=KIND.name, settings={}, seed=0,
        limit=None, repeats=1, data_dir="", rows_sha256="", generation_key="", grade_key="", api="chat",
        rewriting=source,
    )  # fmt: skip
    return open_rewriting(spec, source, KIND, ROWS)


def test_originals_are_found_in_all_attempts_the_first_of_each_counts(tmp_path: Path) -> None:
    graded = SampleRecord(row=0, repeat=0, value=1.0, reason="right")
    write(tmp_path / "samples-1.jsonl", stage(3, "other"), stage(0), graded, torn=b'{"type":"stage","row":1')
    write(tmp_path / "samples-2.jsonl", stage(0, "a second time"), stage(1, "naïve \N{SNOWMAN} \\boxed{3}"))
    found = opened(tmp_path)
    assert found.originals.read((0, 0)).text == f"{THOUGHT} \\boxed{{3}}"
    assert found.originals.read((1, 0)).text == "naïve \N{SNOWMAN} \\boxed{3}"


def test_what_is_not_right_or_was_cut_off_is_left_out_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", stage(0), msgspec.structs.replace(stage(1), stop="length"), stage(2))
    found, work = opened(tmp_path), open_work(4, 1, 1, [])
    left_out = list(found.left_out(work))
    assert [(record.row, record.reason, record.detail) for record in left_out] == [
        (1, "dropped", "cut off in j7"), (2, "dropped", "not right in j7"), (3, "dropped", "not right in j7"),
    ]  # fmt: skip
    assert [unit.row for unit in work.pending] == [0]


def test_completions_that_are_gone_or_changed_are_said_to_be_so(tmp_path: Path) -> None:
    path = tmp_path / "samples-1.jsonl"
    write(path, stage(0))
    with pytest.raises(RowsDamagedError, match="1 completions of j7 are not in"):
        opened(tmp_path)
    found = opened(tmp_path, right=(0,))
    write(path, SampleRecord(row=0, repeat=0, value=1.0, reason="right"))
    with pytest.raises(RowsDamagedError, match="was changed"):
        found.originals.read((0, 0))
    path.unlink()
    with pytest.raises(RowsDamagedError, match="cannot be read"):
        found.originals.read((0, 0))


@pytest.mark.parametrize(("rule", "says"), [("thought-solution/0", "has version 1 now"), ("none/1", "there are:")])
def test_a_rule_that_this_version_does_not_have_is_refused(tmp_path: Path, rule: str, says: str) -> None:
    write(tmp_path / "samples-1.jsonl", stage(0))
    with pytest.raises((RowsDamagedError, SettingError), match=says):
        opened(tmp_path, right=(0,), rule=rule)


def test_a_reply_is_asked_for_three_times_with_other_seeds_and_after_a_cut_with_more_room(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", stage(0))
    found, unit = opened(tmp_path, right=(0,)), SampleUnit(0, 0)
    first = found.item(unit, "9.1.0.0.0.0")
    assert found.read(unit, msgspec.structs.replace(stage(0, "<|begin_of_thought|>"), stop="length")) is None
    second = found.item(unit, "9.1.0.0.0.0")
    assert second.sampling.max_tokens == 2 * first.sampling.max_tokens
    assert (first.sampling.temperature, second.sampling.temperature > 0) == (0.0, True)
    assert first.keys != second.keys
    assert first.id != second.id
    assert found.read(unit, stage(0, "no form")) is None
    third = found.item(unit, "9.1.0.0.0.0")
    assert third.sampling.max_tokens == first.sampling.max_tokens
    ended = found.read(unit, stage(0, "no form"))
    assert ended is not None
    ((_, given_up),) = ended
    assert isinstance(given_up, SampleRecord)
    assert (given_up.value, given_up.reason) == (None, "form")
    assert "<|begin_of_thought|>" in given_up.detail


def test_equal_completions_of_one_problem_are_one_question(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", stage(0), stage(1))
    found = opened(tmp_path)
    items = [found.item(SampleUnit(row, 0), "name") for row in (0, 1)]
    assert items[0].keys == items[1].keys
    assert items[0].messages != items[1].messages  # as the problems are others


def test_a_rewriting_is_graded_as_a_whole_and_a_conversion_has_the_tokens_of_its_original(tmp_path: Path) -> None:
    tagged = f"<think>{THOUGHT}</think> It is \\boxed{{3}}."
    write(tmp_path / "samples-1.jsonl", stage(0), stage(1, tagged))
    found = opened(tmp_path)
    assert found.before_asking(SampleUnit(0, 0)) is None
    ended = found.before_asking(SampleUnit(1, 0))
    assert ended is not None
    ((_, converted),) = ended
    assert isinstance(converted, StageRecord)
    assert (converted.generated, converted.engine, converted.stop) == (9, "", "stop_token")
    unit = SampleUnit(0, 0)
    found.item(unit, "name")
    reply = stage(0, converted.text, engine="endpoint:writer")
    assert found.read(unit, reply) == [(unit, reply)]
