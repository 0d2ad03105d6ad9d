"""Real rows through the whole product with the built-in checkpoint: scores near zero and near chance, but scores."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SHORT = {"cot.max_tokens": "48", "final.max_tokens": "12"}


@pytest.fixture
def prepared(node, real_rows: Path):
    for name in ("gsm8k", "math_500", "mmlu", "arc_challenge"):
        node.cli("data", "prepare", name, "--from", str(real_rows / name))
    return node


def test_every_real_benchmark_gets_a_score(prepared):
    jobs = prepared.dispatch(only_datasets=["mmlu", "arc_challenge"], only_jobs=["multi_choice_plain"], limit=24)
    jobs += prepared.dispatch(only_datasets=["gsm8k", "math_500"], only_jobs=["free_response"], limit=6, settings=SHORT)
    for name in jobs:
        job = prepared.wait_for_state(name, "done", "failed", timeout_s=150)
        assert job["state"] == "done", job
        score = job["score"]
        assert score["partial"]
        assert score["n"] == job["total"]
        assert score["metrics"][score["primary"]]["value"] is not None, score
    repeats = {prepared.job(name)["benchmark"]: prepared.job(name)["total"] for name in jobs}
    assert repeats == {"mmlu": 24, "arc_challenge": 24, "gsm8k": 6, "math_500": 24}


def test_two_stage_samples_hold_both_stages_and_survive_a_dead_engine(prepared, tools):
    settings = SHORT | {"cot.temperature": "1.0", "k": "6"}
    (name,) = prepared.dispatch(only_datasets=["gsm8k"], only_jobs=["free_response"], limit=12, settings=settings)
    for stages in (20, 80):
        tools.wait_for(
            lambda s=stages: (j := prepared.job(name)).get("stages_done", 0) >= s or j["state"] == "done",
            90,
            "it is underway",
            prepared.log,
        )
        tools.kill_worker(prepared.engine_record())
    assert prepared.wait_for_state(name, "done", "failed", timeout_s=150)["state"] == "done"
    lines = prepared.stage_lines(name)
    assert len(lines) == len(set(lines)) == 12 * 6 * 2
    disturbed = prepared.answers_of(name)
    (again,) = prepared.dispatch(
        only_datasets=["gsm8k"], only_jobs=["free_response"], limit=12, settings=settings, overwrite=True
    )
    prepared.wait_for_state(again, "done", timeout_s=150)
    assert prepared.answers_of(again) == disturbed, "a stage that was sent again as ids differs from one that went on"
    first, second = prepared.samples(name)[0]["stages"]
    assert first["prompt"].startswith("User: Janet")
    assert first["prompt"].endswith("\n\nAssistant: <think")
    assert second["prompt"] == "\nTherefore, the answer is \\(\\boxed{"


def test_a_runner_that_does_not_listen_is_killed(new_node, tools):

    node = new_node(stop_grace_s="0.3", stop_term_s="0.3").start()
    (name,) = node.dispatch(settings={"k": "20", "temperature": "1.0"})
    node.wait_until_some(name, 10)
    record = node.runner_record(name)
    os.kill(record.pid, signal.SIGSTOP)
    (item,) = node.api.post("/v1/stop", {"jobs": [name]}).value["items"]
    assert item["state"] == "stopped"
    assert node.runner_record(name).signal == signal.SIGKILL
    node.api.post("/v1/resume", {"jobs": [name]})
    node.wait_until_some(name, 30)


def test_the_daemon_imports_neither_torch_nor_hub_libraries():
    names = "torch", "triton", "numpy", "datasets", "sympy", "math_verify", "textual", "httpx", "pynvml"
    code = f"import sys, rwkv_daemon.main; print([name for name in {names!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
