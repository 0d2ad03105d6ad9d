"""Real rows through the whole product: rows, prompts, stages and graders fit together, whatever is answered."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_node import kill_worker
from waiting import LIMIT_S, LOOK_S, wait_for

from rwkv_daemon.workers.worker_process import is_same

SHORT = {"cot.max_tokens": "48", "final.max_tokens": "12"}


def prepare(node, real_rows: Path, *names: str):
    for name in names:
        node.cli("data", "prepare", name, "--from", str(real_rows / name))
    return node


@pytest.mark.slow("golds")
def test_every_real_benchmark_gets_a_score(node, real_rows):
    prepared = prepare(node, real_rows, "gsm8k", "math_500", "mmlu", "arc_challenge")
    jobs = prepared.dispatch(only_datasets=["mmlu", "arc_challenge"], only_jobs=["multi_choice_plain"], limit=24)
    jobs += prepared.dispatch(only_datasets=["gsm8k", "math_500"], only_jobs=["free_response"], limit=6, settings=SHORT)
    for name in jobs:
        job = prepared.wait_for_state(name, "done", "failed")
        assert job["state"] == "done", job
        score = job["score"]
        assert score["partial"]
        assert score["n"] == job["total"]
        assert score["metrics"][score["primary"]]["value"] is not None, score
    repeats = {prepared.job(name)["benchmark"]: prepared.job(name)["total"] for name in jobs}
    assert repeats == {"mmlu": 24, "arc_challenge": 24, "gsm8k": 6, "math_500": 24}


def let_through(node, name: str, stages: int) -> None:
    """Until so many stages are stored and the engine stands still. A real engine cannot be told to hold its answers: it
    is stopped, and runs for moments."""

    def after_a_moment() -> bool:
        record = node.engine_record()
        if record is None or not is_same(record.pid, record.pid_start):
            return False
        os.kill(record.pid, signal.SIGCONT)
        time.sleep(LOOK_S)
        os.kill(record.pid, signal.SIGSTOP)
        return len(node.stage_lines(name)) >= stages

    wait_for(after_a_moment, f"{stages} stages are stored", node.log)


@pytest.mark.real_engine
def test_two_stage_samples_hold_both_stages_and_survive_a_dead_engine(node, real_rows):
    prepared = prepare(node, real_rows, "gsm8k")
    settings = SHORT | {"cot.temperature": "1.0", "k": "6"}
    (name,) = prepared.dispatch(only_datasets=["gsm8k"], only_jobs=["free_response"], limit=12, settings=settings)
    for stages in (10, 12 * 6 + 1):  # in the first stage, and in the second
        let_through(prepared, name, stages)
        engine = prepared.engine_record()
        assert kill_worker(engine)
        wait_for(lambda engine=engine: not is_same(engine.pid, engine.pid_start), "it is gone", prepared.log)
    assert prepared.wait_for_state(name, "done", "failed")["state"] == "done"
    lines = prepared.stage_lines(name)
    assert len(lines) == len(set(lines)) == 12 * 6 * 2
    disturbed = prepared.answers_of(name)
    (again,) = prepared.dispatch(
        only_datasets=["gsm8k"], only_jobs=["free_response"], limit=12, settings=settings, overwrite=True
    )
    prepared.wait_for_state(again, "done")
    assert prepared.answers_of(again) == disturbed, "a stage that was sent again as ids differs from one that went on"
    first, second = prepared.samples(name)[0]["stages"]
    assert first["prompt"].startswith("User: Janet")
    assert first["prompt"].endswith("\n\nAssistant: <think")
    assert second["prompt"] == "\nTherefore, the answer is \\(\\boxed{"


def test_the_daemon_imports_neither_torch_nor_hub_libraries():
    names = "torch", "triton", "numpy", "datasets", "sympy", "math_verify", "textual", "httpx", "pynvml"
    code = f"import sys, rwkv_daemon.main; print([name for name in {names!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert found.stdout.strip() == "[]"
