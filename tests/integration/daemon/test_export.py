"""`export` from a real daemon, and lm_eval's shape against what lm_eval itself writes."""

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S

from rwkv_data.definition import registry
from rwkvctl.export import lm_eval
from rwkvctl.export.lm_eval_tasks import TASKS

TASK = """\
task: tiny_arith
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs:
  until: ["\\n"]
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1.0
"""


THEIRS = """\
include: {task}
task: {name}
dataset_path: json
dataset_name: null
dataset_kwargs:
  data_files:
    test: {rows}
training_split: null
fewshot_split: null
validation_split: null
test_split: test
num_fewshot: 0
"""
"""A task of lm_eval's own, on rows that are there."""

SAMPLES = 130
"""More than a page."""


@pytest.fixture(scope="module")
def node(module_node: Any) -> Any:
    """A node with one score."""
    made = module_node().start()
    (name,) = made.dispatch(limit=SAMPLES)
    assert made.wait_for_state(name, "done", "failed")["state"] == "done"
    return made


@pytest.fixture
def job(node: Any) -> str:
    """The job of that score."""
    [only] = node.api.get("/v1/jobs").value["items"]
    return str(only["id"])


def test_scores_in_every_form(node, job):
    score = node.job(job)["score"]
    [row] = csv.DictReader(io.StringIO(node.cli("export").stdout))
    assert (row["job"], row["model"], row["n"], row["partial"]) == (job, "builtin", str(SAMPLES), "yes")
    assert float(row["value"]) == score["metrics"]["accuracy"]["value"]
    assert row["generation_key"] == score["provenance"]["generation_key"]
    markdown = node.cli("export", "--format", "markdown").stdout.splitlines()
    assert markdown[0].startswith("| model | benchmark |")
    assert markdown[1].count("|") == markdown[0].count("|")
    [line] = node.cli("export", "--format", "jsonl").stdout.splitlines()
    assert json.loads(line) == score


def test_samples_in_every_form(node, job, tmp_path):
    target = tmp_path / "samples.jsonl"
    node.cli("export", "--samples", "--to", str(target))
    written = [json.loads(line) for line in target.read_text().splitlines()]
    names = {"model", "benchmark", "kind", "version", "job"}
    assert [{k: v for k, v in one.items() if k not in names} for one in written] == node.samples(job)
    again = node.cli("export", "--samples", "--to", str(target), check=False)
    assert again.returncode == 5
    assert "--force" in again.stderr
    chats = [json.loads(line) for line in node.cli("export", "--format", "emoji-chat").stdout.splitlines()]
    assert chats == [
        [turn for stage in one["stages"] for turn in ({"😺": stage["prompt"]}, {"🤖": stage["completion"]})]
        for one in written
    ]
    node.cli("export", "--to", str(target), "--force")
    assert target.read_text() == node.cli("export").stdout


def test_what_cannot_be_meant_is_refused(node):
    for words, code in (
        (("--model", "nobody"), 4),
        (("--format", "csv", "--samples"), 2),
        (("--format", "lm-eval"), 2),
    ):
        found = node.cli("export", *words, check=False)
        assert (found.returncode, found.stdout) == (code, "")


def test_lm_eval_files_hold_the_score_and_every_sample(node, job, tmp_path):
    node.cli("export", "--format", "lm-eval", "--samples", "--to", str(tmp_path / "ours"))
    results, samples = output(tmp_path / "ours")
    assert (
        results["results"]["demo_arith"]["exact_match,none"] == node.job(job)["score"]["metrics"]["accuracy"]["value"]
    )
    assert results["n-samples"] == {"demo_arith": {"original": 300, "effective": SAMPLES}}
    assert [one["doc_id"] for one in samples] == list(range(SAMPLES))
    check_hashes(samples)


@pytest.mark.slow("oracles")
def test_lm_eval_files_have_the_shape_of_lm_evals_own(node, tmp_path):
    pytest.importorskip("lm_eval", reason="needs lm_eval: not installed")
    their_results, their_samples = lm_eval_output(tmp_path / "theirs")
    node.cli("export", "--format", "lm-eval", "--samples", "--to", str(tmp_path / "ours"))
    results, samples = output(tmp_path / "ours")

    assert results.keys() == their_results.keys() | {"rwkvctl"}
    assert results["results"]["demo_arith"].keys() == their_results["results"]["tiny_arith"].keys()
    assert results["config"].keys() == their_results["config"].keys()
    for table in ("configs", "versions", "n-shot", "higher_is_better"):
        assert list(results[table]) == ["demo_arith"]
        assert type(results[table]["demo_arith"]) is type(their_results[table]["tiny_arith"]) or table == "versions"
    assert results["configs"]["demo_arith"].keys() <= their_results["configs"]["tiny_arith"].keys()

    assert samples[0].keys() == their_samples[0].keys()
    for one, other in zip(samples[:1], their_samples[:1], strict=True):
        assert {name: type(one[name]) for name in one} == {name: type(other[name]) for name in other}
    check_hashes(their_samples)


@pytest.mark.slow("oracles")
@pytest.mark.parametrize(
    ("task", "benchmark", "kind", "metrics", "row"),
    [
        (
            "gsm8k/gsm8k.yaml", "gsm8k", "free_response.lm-eval", ("accuracy", "flexible"),
            {"question": "1+1?", "answer": "So\n#### 2"},
        ),
        (
            "arc/arc_easy.yaml", "arc_easy", "multi_choice_plain.lm-eval", ("accuracy", "acc_norm"),
            {"question": "1+1?", "choices": {"text": ["2", "3"], "label": ["A", "B"]}, "answerKey": "A"},
        ),
    ],
)  # fmt: skip
def test_keys_are_those_that_lm_eval_writes_for_the_task(tmp_path, task, benchmark, kind, metrics, row):
    there = pytest.importorskip("lm_eval", reason="needs lm_eval: not installed")
    text = THEIRS.replace("{task}", str(Path(there.__file__).parent / "tasks" / task)).replace("{name}", "tiny_arith")
    theirs, samples = lm_eval_output(tmp_path / "theirs", text, row)
    score = {"benchmark": benchmark, "kind": kind, "rows": 1, "metrics": {name: {"value": 0.5} for name in metrics}}
    assert lm_eval.of_task("t", score).keys() == theirs["results"]["tiny_arith"].keys()
    assert lm_eval.directions(score) == theirs["higher_is_better"]["tiny_arith"]
    ours = [*lm_eval.sample_lines(score, [{"row": 0, "repeat": 0, "value": 1.0, "parts": {metrics[1]: 1.0}}])]
    told = {(one["filter"], *one["metrics"]) for one in samples}
    assert {(one["filter"], *one["metrics"]) for one in map(json.loads, ours)} == told


@pytest.mark.slow("oracles")
def test_tasks_are_known_to_lm_eval():
    tasks = pytest.importorskip("lm_eval.tasks", reason="needs lm_eval: not installed")
    known = set(tasks.TaskManager().all_tasks)
    assert not {task.name for task in TASKS.values()} - known


def test_every_kind_that_repeats_a_task_has_its_name():
    catalogue = registry.Catalogue()
    kinds = {
        (name, kind.name): kind for name in catalogue.names() for kind in catalogue.load(name).kinds.values()
        if kind.profile == "lm-eval"
    }  # fmt: skip
    assert TASKS.keys() == kinds.keys()
    assert all(set(kind.metrics) <= TASKS[place].keys.keys() for place, kind in kinds.items())


def check_hashes(samples: list[dict[str, Any]]) -> None:
    """What the hashes of a sample are of, in our files as in theirs."""
    for one in samples:
        prompt, doc = one["arguments"]["gen_args_0"]["arg_0"], json.dumps(one["doc"], indent=2, ensure_ascii=False)
        assert one["prompt_hash"] == hashlib.sha256(prompt.encode()).hexdigest()
        assert one["target_hash"] == hashlib.sha256(one["target"].encode()).hexdigest()
        assert one["doc_hash"] == hashlib.sha256(doc.encode()).hexdigest()


def lm_eval_output(folder: Path, task: str = TASK, row: dict[str, Any] | None = None) -> list[Any]:
    """What lm_eval writes for its dummy model on three questions."""
    folder.mkdir()
    rows = folder / "rows.jsonl"
    questions = [row or {"question": f"{n}+1=", "answer": str(n + 1)} for n in range(3)]
    rows.write_text("".join(json.dumps(question) + "\n" for question in questions))
    (folder / "tiny.yaml").write_text(task.format(rows=rows))
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "OMP_NUM_THREADS": "1"}
    words = ["--model", "dummy", "--tasks", "tiny_arith", "--include_path", str(folder), "--log_samples"]
    found = subprocess.run(
        [sys.executable, "-m", "lm_eval", *words, "--output_path", str(folder / "out")],
        env=os.environ | quiet, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-3000:]
    return output(folder / "out")


def output(folder: Path) -> list[Any]:
    """The results file and the samples of the one model under a folder."""
    [results] = folder.glob("*/results_*.json")
    [samples] = folder.glob("*/samples_*.jsonl")
    return [json.loads(results.read_text()), [json.loads(line) for line in samples.read_text().splitlines()]]
