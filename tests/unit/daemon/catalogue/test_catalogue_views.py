"""What clients are told of benchmarks and checkpoints: whether they can be used, and why not."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.catalogue import contents
from rwkv_daemon.rules.plan import KindFact, ModelFact, SelectionError
from rwkv_data.definition import overrides, registry
from rwkv_data.prepare.prepare import prepare, prepare_own
from rwkvctl.protocol.requests import Selection


def test_a_benchmark_says_why_its_rows_are_not_ready(tmp_path: Path) -> None:
    view = contents.benchmark_view(registry.load("gsm8k"), tmp_path)
    assert (view.ready, view.damaged, view.rows, view.rows_complete) == (False, False, None, 1319)
    assert "not prepared" in view.problem
    assert "openai/gsm8k" in view.source
    built_in = contents.benchmark_view(registry.load("demo_arith"), tmp_path)
    assert (built_in.ready, built_in.problem, built_in.source) == (True, "", "built in")


def test_rows_that_were_prepared_from_a_file_say_so_and_not_where_others_come_from(tmp_path: Path) -> None:
    rows = tmp_path / "mine.jsonl"
    rows.write_text('{"question": "1+1?", "answer": "2\\n#### 2"}\n')
    prepare("gsm8k", tmp_path / "data", source=rows)
    view = contents.benchmark_view(registry.load("gsm8k"), tmp_path / "data")
    assert view.ready
    assert "mine.jsonl" in view.source
    assert "openai/gsm8k" in view.upstream


def test_rows_of_another_version_are_not_ready(tmp_path: Path) -> None:
    rows = tmp_path / "quiz.jsonl"
    rows.write_text('{"question": "1+1", "answer": "2"}\n')
    prepare_own("own_quiz", rows, tmp_path, replace=False)
    manifest = tmp_path / "gsm8k" / "manifest.json"
    manifest.parent.mkdir()
    plain = json.loads((tmp_path / "own_quiz" / "manifest.json").read_text())
    manifest.write_text(json.dumps(plain | {"benchmark": "gsm8k", "benchmark_version": 99, "format": 2}))
    view = contents.benchmark_view(registry.load("gsm8k"), tmp_path)
    assert (view.ready, view.damaged) == (False, True)
    assert "prepared for version 99" in view.problem


def test_a_checkpoint_says_what_is_wrong_with_it_and_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "rwkv7-g1-0.1b-20260801-ctx4096.pth").write_bytes(bytes(2**20))
    (found, *_) = contents.checkpoints(tmp_path)
    fact = ModelFact(name=found.label, path=str(found.path), sha256="", architecture="rwkv7", parameters_b=0.1,
                     order=found.name.sort_key, builtin=False, broken="it is truncated")  # fmt: skip
    view = contents.model_view(found, fact, "fp32")
    assert view.broken == "it is truncated"
    assert view.need_bytes == 2**20 + 2**30
    assert contents.model_view(found, fact, "fast").need_bytes == 2**19 + 2**30


def own_rows(tmp_path: Path, *, training: bool = False) -> contents.NodeBenchmarks:
    """A node with a set of nine rows of one's own, with a level each, and with GSM8K, of which there are no rows."""
    file = tmp_path / "sums.jsonl"
    rows = [{"question": f"{number}+0?", "answer": str(number), "level": number % 3} for number in range(9)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare_own("sums", file, tmp_path / "data", training=training)
    return contents.NodeBenchmarks(tmp_path / "data", files={"gsm8k": registry.load("gsm8k")})


def facts_of(benchmarks: contents.NodeBenchmarks, *names: str, **settings: str) -> list[KindFact]:
    selection = Selection(only_datasets=names, settings=settings)
    return contents.kind_facts(selection, benchmarks)


def test_picked_rows_are_counted_without_a_row_being_read(tmp_path: Path) -> None:
    benchmarks = own_rows(tmp_path)
    (tmp_path / "data" / "own_sums" / "test.jsonl").unlink()
    (tmp_path / "data" / "own_sums" / "test.jsonl").write_text('{"question": "0+0?"}\n')
    (whole,) = facts_of(benchmarks, "own_sums")
    (picked,) = facts_of(benchmarks, "own_sums", rows="3:", where="level>=1")
    assert (whole.rows, picked.rows) == (9, 4)
    assert picked.configuration == whole.configuration | {"rows": "3:", "where": "level>=1"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"where": "lever>=1"}, "no field 'lever' that is a number or a short text; there are level (number), answer"),
        ({"where": "level>7"}, "--set for own_sums free_response: where=level>7 leaves none of its 9 rows."),
        ({"rows": "9:12"}, "rows=9:12 leaves none of its 9 rows."),
        ({"where": "level"}, "'level' does not begin with a condition"),
        ({"rows": "7"}, "rows='7' is no range of rows, such as 0:20000"),
    ],
)
def test_what_cannot_be_picked_is_an_error_of_the_selection(tmp_path: Path, settings: Any, says: str) -> None:
    with pytest.raises(SelectionError) as caught:
        facts_of(own_rows(tmp_path), "own_sums", **settings)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"where": "question==x", "rows": "0:1"}, "does not begin with a condition"),
        ({"where": "question=x", "rows": "1"}, "rows='1' is no range of rows"),
        ({"where": "question==x"}, "does not begin with a condition"),
    ],
)
def test_a_misspelt_pick_is_refused_of_kinds_that_sample_nothing_too(tmp_path: Path, settings: Any, says: str) -> None:
    """Settings that such a kind cannot take are left out, so that one dispatch may hold for kinds of both sorts."""
    demo = registry.load("demo_choice")
    benchmarks = contents.NodeBenchmarks(tmp_path / "data", files={"demo_choice": demo})
    assert not demo.default_kind.samples_tokens
    (fact,) = facts_of(benchmarks, "demo_choice", rows="0:1", temperature="0.5")
    assert (fact.rows, fact.settings) == (1, {"rows": "0:1"})
    with pytest.raises(SelectionError, match=re.escape(says)):
        facts_of(benchmarks, "demo_choice", **settings)


def test_rows_that_are_not_there_yet_are_picked_when_they_are(tmp_path: Path) -> None:
    facts = facts_of(own_rows(tmp_path), "gsm8k", where="level>=1")
    assert facts
    assert {(one.rows, one.rows_problem) for one in facts} == {(None, "")}
    assert all(one.configuration["where"] == "level>=1" for one in facts)


def test_standing_settings_that_a_set_cannot_answer_leave_that_set_out_alone(tmp_path: Path) -> None:
    benchmarks = own_rows(tmp_path)
    for value, rows, problem in (("level=1", 3, ""), ("year=1", None, "no field 'year'")):
        rule = overrides.OverrideRule("", "", "", "where", value, "benchmarks.toml:2")
        benchmarks.overrides = overrides.Overrides((rule,))
        (found,) = facts_of(benchmarks, "own_sums")
        assert (found.rows, problem in found.rows_problem) == (rows, True)


def test_fields_that_are_damaged_say_how_to_make_them_anew(tmp_path: Path) -> None:
    benchmarks = own_rows(tmp_path)
    (tmp_path / "data" / "own_sums" / "fields.jsonl").write_text("{}")
    with pytest.raises(SelectionError, match=r"fields.jsonl is damaged .*give its file once more"):
        facts_of(benchmarks, "own_sums", where="level=1")
    (whole,) = facts_of(benchmarks, "own_sums")
    assert whole.rows == 9


def test_a_set_that_an_earlier_version_prepared_is_read_again_from_the_same_file(tmp_path: Path) -> None:
    benchmarks = own_rows(tmp_path)
    path = tmp_path / "data" / "own_sums" / "manifest.json"
    old = {name: value for name, value in json.loads(path.read_text()).items() if not name.startswith("fields")}
    path.write_text(json.dumps(old | {"format": 2}))
    with pytest.raises(SelectionError, match="prepared without their fields: prepare them again"):
        facts_of(benchmarks, "own_sums", where="level=1")
    manifest = prepare_own("sums", tmp_path / "sums.jsonl", tmp_path / "data")
    assert manifest.sha256 == old["sha256"], "keys and scores stay"
    assert [one.rows for one in facts_of(benchmarks, "own_sums", where="level=1")] == [3]


def test_rows_of_ones_own_may_be_there_to_be_trained_on(tmp_path: Path) -> None:
    benchmarks = own_rows(tmp_path, training=True)
    assert contents.benchmark_view(benchmarks.get("own_sums"), tmp_path / "data").training
    assert [one.training for one in facts_of(benchmarks, "own_sums")] == [True]
    assert {one.benchmark for one in facts_of(benchmarks)} == {"gsm8k"}
