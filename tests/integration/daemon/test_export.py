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


def done(node: Any, **selection: Any) -> str:
    (name,) = node.dispatch(**selection)
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"
    return str(name)


def test_scores_and_samples_in_every_form(node, tmp_path):
    job = done(node, limit=130)
    score = node.job(job)["score"]

    [row] = csv.DictReader(io.StringIO(node.cli("export").stdout))
    assert (row["job"], row["model"], row["n"], row["partial"]) == (job, "builtin", "130", "yes")
    assert float(row["value"]) == score["metrics"]["accuracy"]["value"]
    assert row["generation_key"] == score["provenance"]["generation_key"]
    markdown = node.cli("export", "--format", "markdown").stdout.splitlines()
    assert markdown[0].startswith("| model | benchmark |")
    assert markdown[1].count("|") == markdown[0].count("|")
    [line] = node.cli("export", "--format", "jsonl").stdout.splitlines()
    assert json.loads(line) == score

    target = tmp_path / "samples.jsonl"
    node.cli("export", "--samples", "--to", str(target))
    written = [json.loads(line) for line in target.read_text().splitlines()]
    names = {"model", "benchmark", "kind", "version", "job"}
    assert [{k: v for k, v in one.items() if k not in names} for one in written] == node.samples(job), (
        "more than a page"
    )
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


@pytest.mark.slow
def test_lm_eval_files_have_the_shape_of_lm_evals_own(node, tmp_path):
    pytest.importorskip("lm_eval", reason="needs lm_eval: not installed")
    theirs = lm_eval_output(tmp_path / "theirs")
    job = done(node, limit=12)
    node.cli("export", "--format", "lm-eval", "--samples", "--to", str(tmp_path / "ours"))
    ours = output(tmp_path / "ours")
    [results, samples], [their_results, their_samples] = ours, theirs

    assert results.keys() == their_results.keys() | {"rwkvctl"}
    mine, other = results["results"]["demo_arith"], their_results["results"]["tiny_arith"]
    assert mine.keys() == other.keys()
    assert mine["exact_match,none"] == node.job(job)["score"]["metrics"]["accuracy"]["value"]
    assert results["config"].keys() == their_results["config"].keys()
    assert results["n-samples"] == {"demo_arith": {"original": 300, "effective": 12}}
    for table in ("configs", "versions", "n-shot", "higher_is_better"):
        assert list(results[table]) == ["demo_arith"]
        assert type(results[table]["demo_arith"]) is type(their_results[table]["tiny_arith"]) or table == "versions"
    assert results["configs"]["demo_arith"].keys() <= their_results["configs"]["tiny_arith"].keys()

    assert [one["doc_id"] for one in samples] == list(range(12))
    assert samples[0].keys() == their_samples[0].keys()
    for one, other in zip(samples[:1], their_samples[:1], strict=True):
        assert {name: type(one[name]) for name in one} == {name: type(other[name]) for name in other}
    for one in (*samples, *their_samples):
        prompt = one["arguments"]["gen_args_0"]["arg_0"]
        assert one["prompt_hash"] == hashlib.sha256(prompt.encode()).hexdigest()
        assert one["target_hash"] == hashlib.sha256(one["target"].encode()).hexdigest()
        assert (
            one["doc_hash"] == hashlib.sha256(json.dumps(one["doc"], indent=2, ensure_ascii=False).encode()).hexdigest()
        )


def lm_eval_output(folder: Path) -> list[Any]:
    """What lm_eval writes for its dummy model on three questions."""
    folder.mkdir()
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"{n}+1=", "answer": str(n + 1)}) + "\n" for n in range(3)))
    (folder / "tiny.yaml").write_text(TASK.format(rows=rows))
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "OMP_NUM_THREADS": "1"}
    words = ["--model", "dummy", "--tasks", "tiny_arith", "--include_path", str(folder), "--log_samples"]
    found = subprocess.run(
        [sys.executable, "-m", "lm_eval", *words, "--output_path", str(folder / "out")],
        env=os.environ | quiet, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-3000:]
    return output(folder / "out")


def output(folder: Path) -> list[Any]:
    """The results file and the samples of the one model under a folder."""
    [results] = folder.glob("*/results_*.json")
    [samples] = folder.glob("*/samples_*.jsonl")
    return [json.loads(results.read_text()), [json.loads(line) for line in samples.read_text().splitlines()]]
