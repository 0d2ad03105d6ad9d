"""`import` through a real daemon: what comes in is seen, compared, never taken for ours, and whole or not at all."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkvctl.protocol.replies import ImportReply

FOLDER = "builtin"
ESCAPE = "\x1b]52;c;aGk=\x07"


@pytest.fixture(scope="module")
def shared(module_node: Any) -> Any:
    """A node that takes in what tests bring, each with models of its own."""
    return module_node().start()


def bring(node: Any, path: Path, *words: str, code: int = 0) -> dict[str, Any]:
    found = node.cli("import", str(path), *words, "--json", check=False)
    assert found.returncode == code, found.stdout + found.stderr
    msgspec.json.decode(found.stdout.encode(), type=ImportReply)
    return dict(json.loads(found.stdout))


def lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def results(root: Path, samples: list[dict[str, Any]], *, model: str = "builtin", wrong: int = 0) -> Path:
    """A results folder of rwkv-skills with our samples in it, the first `wrong` right ones turned into wrong ones."""
    traces, verdicts, right = [], [], []
    for sample in samples:
        [stage] = sample["stages"]
        place = {"benchmark_name": "demo_arith", "dataset_split": "test"}
        place |= {"sample_index": sample["row"], "repeat_index": sample["repeat"]}
        passed = sample["value"] == 1
        if passed and len(right) < wrong:
            passed = False
            right.append(sample["row"])
        completion = {"prompt1": stage["prompt"], "completion1": stage["completion"] + ESCAPE}
        traces.append(place | completion | {"sampling_config": {}, "stop_reason1": "max_length"})
        answer = {"answer": sample.get("extracted") or "", "ref_answer": sample["expected"]}
        verdicts.append(place | answer | {"is_passed": passed, "fail_reason": "" if passed else "incorrect"})
    share = sum(one["is_passed"] for one in verdicts) / len(verdicts)
    score = {"dataset": "demo_arith_test", "model": model, "cot": False, "metrics": {"exact_accuracy": share + 0.1},
             "samples": len(samples), "created_at": "2026-03-01T10:00:00Z", "task": "free_response"}  # fmt: skip
    lines(root / "completions" / FOLDER / "demo_arith_test.jsonl", traces)
    lines(root / "eval" / FOLDER / "demo_arith_test_results.jsonl", verdicts)
    (root / "scores" / FOLDER).mkdir(parents=True)
    (root / "scores" / FOLDER / "demo_arith_test.json").write_text(json.dumps(score, indent=2))
    return root


def test_imported_scores_stand_beside_ours_and_never_for_them(node, tmp_path):
    (own,) = node.dispatch(limit=20)
    node.wait_for_state(own, "done")
    samples = node.samples(own)
    root = results(tmp_path / "results", samples, wrong=3)

    planned = bring(node, root, "--dry-run")
    assert planned["counts"] == {"would-import": 1}
    assert len(node.api.get("/v1/jobs").value["items"]) == 1, "a dry run stores nothing"

    reply = bring(node, root)
    [item] = reply["items"]
    assert (item["outcome"], item["model"], item["benchmark"], item["kind"]) == (
        "imported", "builtin", "demo_arith", "free_response",
    )  # fmt: skip
    assert item["disagreements"][0].startswith("exact_accuracy is ")
    again = bring(node, root)
    assert (again["counts"], again["items"][0]["job"]) == ({"there": 1}, item["job"])
    assert bring(node, results(tmp_path / "copy", samples, wrong=3))["counts"] == {"there": 1}, "known by content"

    job = node.job(item["job"])
    score = job["score"]
    assert (job["state"], job["numerics"], job["version"]) == ("done", "imported", 2)
    assert score["provenance"]["imported"]["metrics"] == item["metrics"]
    assert len(score["provenance"]["imported"]["files"]) == 3
    assert (score["n"], score["rows"], score["truncated"]) == (20, 20, 20)
    right = sum(sample["value"] == 1 for sample in samples) - 3
    assert score["metrics"]["accuracy"]["value"] == right / 20
    assert score["metrics"]["accuracy"]["ci_low"] < right / 20 < score["metrics"]["accuracy"]["ci_high"]

    imported = node.samples(item["job"])
    assert [sample["row"] for sample in imported] == list(range(20))
    assert imported[0]["stages"][0]["completion"] == samples[0]["stages"][0]["completion"] + ESCAPE
    assert "\x1b" not in node.cli("samples", item["job"], "-o", "table").stdout

    shown = node.api.get("/v1/scores").value["items"]
    assert {found["job"] for found in shown} == {own, item["job"]}, "an import hides no score of ours"
    table = node.cli("scores")
    assert "imported, imported: exact_accuracy is" in table.stdout

    (second,) = node.dispatch(limit=21)
    node.wait_for_state(second, "done")
    plan = node.api.post("/v1/plan", {"selection": {"models": ["builtin"], "only_datasets": ["demo_arith"]}}).value
    assert plan["rows"][0]["action"] == "run", "an import is not our work done"

    refused = node.cli("compare", own, item["job"], "--json", check=False)
    [found] = json.loads(refused.stdout)["items"]
    assert refused.returncode == 5
    assert any(text.startswith("numerics: fp32 in A, imported in B") for text in found["differs"])
    forced = node.cli("compare", own, item["job"], "--force", "--flips", "--json")
    [found] = json.loads(forced.stdout)["items"]
    assert (found["rows"], found["only_a"], found.get("only_b", 0), found["forced"]) == (20, 3, 0, True)
    assert len(found["flips"]) == 3

    node.kill()
    node.start()
    assert node.job(item["job"])["state"] == "done"


def test_two_imports_of_the_same_questions_are_comparable(shared, tmp_path):
    node = shared
    samples = made_up(40)
    first = bring(node, results(tmp_path / "a", samples, model="m1"))["items"][0]
    second = bring(node, results(tmp_path / "b", samples, model="m2", wrong=12))["items"][0]
    reply = json.loads(node.cli("compare", "m1", "m2", "--json").stdout)
    [item] = reply["items"]
    assert (item["job_a"], item["job_b"], item["only_a"], item["verdict"]) == (first["job"], second["job"], 12, "worse")
    others = [sample | {"expected": f"another {sample['row']}"} for sample in samples]
    bring(node, results(tmp_path / "c", others, model="m3"))
    refused = node.cli("compare", "m1", "m3", "--json", check=False)
    [item] = json.loads(refused.stdout)["items"]
    assert any(text.startswith("rows_sha256: ") for text in item["differs"])
    refused = node.cli("compare", "m1", "m3", "--force", "--json", check=False)
    [item] = json.loads(refused.stdout)["items"]
    assert item["why"] == "the row numbers mean other questions: 40 of 40 reference answers differ"


def made_up(count: int) -> list[dict[str, Any]]:
    """Samples as ours look."""
    return [
        {"row": row, "repeat": 0, "value": 1.0, "expected": str(row), "extracted": str(row),
         "stages": [{"prompt": f"{row}+0=", "completion": str(row)}]}
        for row in range(count)
    ]  # fmt: skip


def test_a_bad_line_refuses_its_score_and_no_other(shared, tmp_path):
    node = shared
    good = results(tmp_path / "r" / "good", made_up(5), model="good")
    bad = results(tmp_path / "r" / "bad", made_up(5), model="bad")
    path = bad / "eval" / FOLDER / "demo_arith_test_results.jsonl"
    text = path.read_text().splitlines()
    path.write_text("\n".join([*text[:3], '{"sample_index": 3', *text[4:]]) + "\n")
    reply = bring(node, tmp_path / "r", code=8)
    assert reply["counts"] == {"imported": 1, "refused": 1}
    problems = [item["problem"] for item in reply["items"] if item["outcome"] == "refused"]
    assert problems[0].startswith(f"{path}:4: no JSON"), problems
    jobs = node.api.get("/v1/jobs").value["items"]
    assert [job["model"] for job in jobs if job["model"] in {"good", "bad"}] == ["good"]
    assert good.is_dir()


def test_paths_that_cannot_be_read_are_said_so(shared, tmp_path):
    node = shared
    found = node.cli("import", str(tmp_path / "none"), check=False)
    assert found.returncode == 4
    assert "No such file" in found.stderr
    assert "The daemon runs as" in found.stderr
    assert bring(node, tmp_path)["counts"] == {}


def test_tables_and_summaries_come_in_too(shared, tmp_path):
    node = shared
    root = tmp_path / "results"
    context = {"stages": [{"prompt": "P", "completion": "C", "stop_reason": "stop_token"}], "sampling_config": {}}
    lines(root / "model" / "m" / "aime24_test.jsonl", [{"model_id": 1, "model_name": "from-tables"}])
    lines(root / "task" / "m" / "aime24_test.jsonl", [{"task_id": 1, "evaluator": "eval_free_response"}])
    rows = [(row, repeat) for row in range(3) for repeat in range(4)]
    lines(root / "completions" / "m" / "aime24_test.jsonl", [
        {"completions_id": n, "task_id": 1, "sample_index": row, "repeat_index": repeat, "context": context,
         "status": "answer"} for n, (row, repeat) in enumerate(rows)
    ])  # fmt: skip
    lines(root / "eval" / "m" / "aime24_test.jsonl", [
        {"eval_id": n, "completions_id": n, "is_passed": repeat <= row, "answer": "1", "ref_answer": "1"}
        for n, (row, repeat) in enumerate(rows)
    ])  # fmt: skip
    metrics = {"avg@4": 0.5, "pass@2": 1.0}
    lines(
        root / "scores" / "m" / "aime24_test.jsonl", [{"score_id": 1, "task_id": 1, "is_cot": True, "metrics": metrics}]
    )
    old = {"model": "from-summary", "dataset_slug": "own_set_test", "accuracy": 0.25, "cot": False, "total": 100}
    (root / "results_own.json").write_text(json.dumps(old))
    reply = bring(node, root)
    assert reply["counts"] == {"imported": 2}
    scores = {score["model"]: score for score in node.api.get("/v1/scores").value["items"]}
    tables = scores["from-tables"]
    assert (tables["primary"], tables["repeats"], tables["rows"]) == ("avg@4", 4, 3)
    assert tables["metrics"]["avg@4"]["value"] == 0.5
    assert tables["metrics"]["pass@2"]["value"] < 1.0
    assert any("pass@2 is 1 there" in text for text in tables["warnings"])
    summary = scores["from-summary"]
    assert (summary["benchmark"], summary["kind"], summary["n"]) == ("own_set_test", "multi_choice_plain", 100)
    assert summary["metrics"]["accuracy"] == {"value": 0.25}
    found = node.cli("compare", "from-summary", "from-summary", "--json", "--force", check=False)
    assert json.loads(found.stdout)["items"][0]["why"] == "A and B came without samples"


def test_overwrite_takes_the_place_of_what_came_from_the_same_file(shared, tmp_path):
    node, root = shared, tmp_path / "results"
    samples = [
        {"row": row, "repeat": 0, "value": 1, "expected": "3", "stages": [{"prompt": "P", "completion": "3"}]}
        for row in range(4)
    ]
    results(root, samples, model="again")
    (first,) = bring(node, root)["items"]
    assert bring(node, root)["counts"] == {"there": 1}
    score = root / "scores" / FOLDER / "demo_arith_test.json"
    score.write_text(score.read_text().replace("exact_accuracy", "judge_accuracy"))
    assert bring(node, root, "--overwrite", "--dry-run")["items"][0]["outcome"] == "would-replace"
    (again,) = bring(node, root, "--overwrite")["items"]
    assert (again["outcome"], again["job"] != first["job"]) == ("replaced", True)
    found = node.api.get("/v1/scores", model="again", all_versions=True).value["items"]
    assert [one["job"] for one in found] == [again["job"]]
    assert len(node.samples(again["job"])) == 4
    assert node.cli("show", first["job"], check=False).returncode == 4
    assert bring(node, root)["counts"] == {"there": 1}
