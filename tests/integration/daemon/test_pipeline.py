"""One checkpoint on one benchmark from Python: the score of a daemon's job, without one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live_node import STUB
from waiting import wait_for

from rwkv_daemon.pipeline import PipelineError, measure
from rwkv_daemon.rules.plan import SelectionError
from rwkv_daemon.workers.run_directory import StageRecord, read_records

ASKED = ("weights_sha256", "rows_sha256", "grader", "grader_version", "grading", "configuration", "settings", "seed",
         "limit", "numerics", "generation_key", "grade_key", "prompt_tokens", "generated_tokens", "curves")  # fmt: skip


@pytest.fixture
def stub(monkeypatch):
    """The stub engine, which needs no torch."""
    monkeypatch.setenv("PYTHONPATH", str(STUB))


@pytest.mark.real_engine
def test_the_score_is_that_of_a_job_bit_for_bit(node, tmp_path):
    settings = {"k": "3", "temperature": "2.5"}
    (name,) = node.dispatch(limit=40, settings=settings)
    job = node.wait_for_state(name, "done", "failed")["score"]
    path = tmp_path / "score.json"
    made = measure("builtin", "demo_arith", path, limit=40, settings=settings, home=node.home)
    written = json.loads(path.read_bytes())
    own = {"job", "session", "finished", "provenance"}
    assert {k: v for k, v in written.items() if k not in own} == {k: v for k, v in job.items() if k not in own}
    assert {k: written["provenance"][k] for k in ASKED} == {k: job["provenance"][k] for k in ASKED}
    assert 0.0 < made.metrics["accuracy"].value < 1.0, "the samples differ, so that equal means something"
    records = read_records(tmp_path / "score.json.run" / "samples-1.jsonl")
    texts = {(r.row, r.repeat): [r.text] for r in records if isinstance(r, StageRecord)}
    assert texts == node.answers_of(name)


def test_a_run_that_was_cut_off_goes_on_and_a_finished_one_is_read(stub, tmp_path):
    path, run = tmp_path / "score.json", tmp_path / "score.json.run"
    first = measure("builtin", "demo_arith", path, limit=20, home=tmp_path / "home")
    samples = run / "samples-1.jsonl"
    lines = samples.read_bytes().splitlines(keepends=True)
    path.unlink()
    samples.write_bytes(b"".join(lines[:10]) + lines[10][:5])
    again = measure("builtin", "demo_arith", path, limit=20, home=tmp_path / "home")
    assert again.metrics == first.metrics
    assert len((run / "samples-2.jsonl").read_bytes().splitlines()) == len(lines) - 10
    assert measure("builtin", "demo_arith", path, limit=20, home=tmp_path / "home") == again
    assert not (run / "samples-3.jsonl").exists()


def test_other_work_is_not_mixed_in(stub, tmp_path):
    path = tmp_path / "score.json"
    measure("builtin", "demo_arith", path, limit=2, home=tmp_path / "home")
    with pytest.raises(PipelineError, match="is the score of other work"):
        measure("builtin", "demo_arith", path, limit=3, home=tmp_path / "home")
    path.unlink()
    with pytest.raises(PipelineError, match="holds part of other work"):
        measure("builtin", "demo_arith", path, limit=3, home=tmp_path / "home")


@pytest.mark.parametrize(
    ("benchmark", "more", "error", "words"),
    [
        ("mmlu", {}, PipelineError, "say which kind: .*multi_choice_plain"),
        ("gsm8k", {"kind": "free_response"}, PipelineError, "rwkvctl data prepare gsm8k"),
        ("gsm9k", {}, SelectionError, "unknown gsm9k"),
        ("demo_arith", {"settings": {"heat": 2}}, SelectionError, "temperature"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_written(tmp_path, benchmark, more, error, words):
    with pytest.raises(error, match=words):
        measure("builtin", benchmark, tmp_path / "score.json", home=tmp_path / "home", **more)
    assert not list(tmp_path.glob("score.json*"))


def test_an_engine_that_does_not_start_says_why(tmp_path, monkeypatch):
    fake = tmp_path / "fake" / "rwkv_engine"
    fake.mkdir(parents=True)
    (fake / "__init__.py").touch()
    (fake / "__main__.py").write_text("import sys; sys.exit('no such weights')")
    monkeypatch.setenv("PYTHONPATH", str(fake.parent))
    with pytest.raises(PipelineError, match="the engine ended: no such weights"):
        measure("builtin", "demo_arith", tmp_path / "score.json", limit=2, home=tmp_path / "home")


def test_a_worker_dies_with_the_process_that_started_it(tmp_path):
    (tmp_path / "sleeper.py").write_text("import time, pathlib; pathlib.Path('up').touch(); time.sleep(600)")
    parent = (
        "import os, subprocess, sys; "
        "words = [sys.executable, '-m', 'rwkv_daemon.workers.tied_process', str(os.getpid()), 'sleeper']; "
        "child = subprocess.Popen(words); print(child.pid, flush=True); child.wait()"
    )
    plain = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", parent], cwd=tmp_path, env=plain, stdout=subprocess.PIPE) as process:
        child = int(process.stdout.readline())
        wait_for((tmp_path / "up").exists, "the child runs")
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{child}").exists(), "it is gone too")
