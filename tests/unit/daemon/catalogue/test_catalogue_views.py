"""What clients are told of benchmarks and checkpoints: whether they can be used, and why not."""

import json
from pathlib import Path

from rwkv_daemon.catalogue import contents
from rwkv_daemon.rules.plan import ModelFact
from rwkv_data.definition import registry
from rwkv_data.prepare.prepare import prepare, prepare_own


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
