"""Reading what evalplus 0.3.1 writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.harness.outputs import evalplus, result
from rwkv_daemon.harness.outputs.evalplus import EvalplusSamples
from rwkv_daemon.harness.outputs.result import NoResultsError, ResultError, TaskResult
from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord

NAME = "builtin_openai_temp_0.0"


def verdict(base: str | None, plus: str | None, **more: Any) -> list[dict[str, Any]]:
    return [{"task_id": "x", "solution": "def f(): ...", "base_status": base, "plus_status": plus} | more]


EVERY = {
    "HumanEval/10": verdict("fail", "fail", base_fail_tests=[["aba"]], plus_fail_tests=[]),
    "HumanEval/2": verdict("pass", "pass"),
    "HumanEval/0": verdict("pass", "timeout"),
    "HumanEval/1": verdict("pass", "pass"),
}


def written(folder: Path, every: object = EVERY, replies: dict[str, str] | None = None) -> Path:
    base = folder / "humaneval"
    base.mkdir(exist_ok=True)
    file = {"date": "2026-11-29 07:10", "hash": "fe585eb4df8c88d844eeb463ea4d0302", "eval": every}
    (base / f"{NAME}_eval_results.json").write_text(json.dumps(file))
    names = every if isinstance(every, dict) else {}
    texts = dict.fromkeys(names, "def f(): ...") if replies is None else replies
    lines = [json.dumps({"task_id": name, "solution": text}) for name, text in texts.items()]
    (base / f"{NAME}.raw.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def read(folder: Path) -> tuple[TaskResult, list[Record]]:
    found = evalplus.results(folder, "humaneval")
    [name] = found
    samples = EvalplusSamples(folder, name, found, "e1")
    records = list(samples.records())
    return samples.tally.counted(found[name]), records


def test_the_score_is_the_share_that_passes_all_tests_and_that_of_the_base_tests_stands_beside_it(
    tmp_path: Path,
) -> None:
    replies = dict.fromkeys(EVERY, "def f(): ...") | {"HumanEval/10": "```python\nx\n```"}
    task, records = read(written(tmp_path, replies=replies))
    assert task.task == "humaneval"
    assert [(one.name, one.value) for one in task.metrics] == [("pass@1,plus", 0.5), ("pass@1,base", 0.75)]
    assert (task.n, task.n_error, task.mean, task.binary, task.version) == (4, 0, 0.5, True, "fe585eb4df8c")
    assert result.judged("humaneval", {"humaneval": task}, len(records) // 2, "exit code 0").state == "ok"
    stages = [one for one in records if isinstance(one, StageRecord)]
    samples = [one for one in records if isinstance(one, SampleRecord)]
    assert [one.prompt for one in stages] == ["HumanEval/0", "HumanEval/1", "HumanEval/2", "HumanEval/10"]
    assert [(one.value, one.parts) for one in samples] == [
        (0.0, {"base": 1.0}), (1.0, {"base": 1.0}), (1.0, {"base": 1.0}), (0.0, {"base": 0.0}),
    ]  # fmt: skip
    assert [one.detail for one in samples] == [
        "plus tests: timeout", "", "", "base tests: fail with ['aba']; plus tests: fail",
    ]  # fmt: skip
    assert (stages[3].text, samples[3].extracted) == ("```python\nx\n```", "def f(): ...")


@pytest.mark.parametrize("status", [None, "", "crashed", 1])
def test_a_problem_without_a_verdict_leaves_no_score(tmp_path: Path, status: Any) -> None:
    task, records = read(written(tmp_path, EVERY | {"HumanEval/2": verdict("pass", status)}))
    assert {one.value for one in task.metrics} == {None}
    assert task.metrics[0].reason == "no verdict on 1 problem"
    ended = result.judged("humaneval", {"humaneval": task}, len(records) // 2, "exit code 0")
    assert (ended.state, ended.why) == ("partial", "1 of its 4 rows have no verdict")


@pytest.mark.parametrize("solutions", [[], [*verdict("pass", "pass") * 2], "pass", [1], None])
def test_each_problem_has_one_solution(tmp_path: Path, solutions: object) -> None:
    with pytest.raises(ResultError, match="does not have one solution of HumanEval/2"):
        evalplus.results(written(tmp_path, EVERY | {"HumanEval/2": solutions}), "humaneval")


def test_a_file_without_verdicts_two_files_and_none_are_no_result(tmp_path: Path) -> None:
    with pytest.raises(NoResultsError, match="it wrote no results"):
        evalplus.results(tmp_path, "humaneval")
    with pytest.raises(ResultError, match="has no verdicts"):
        evalplus.results(written(tmp_path, [1]), "humaneval")
    (tmp_path / "humaneval" / "again_eval_results.json").write_text("{}")
    with pytest.raises(ResultError, match="it wrote 2 files of results"):
        evalplus.results(tmp_path, "humaneval")


@pytest.mark.parametrize("other", [{}, {"HumanEval/3": "x"}])
def test_verdicts_on_other_problems_than_it_asked_are_not_believed(tmp_path: Path, other: dict[str, str]) -> None:
    replies = dict.fromkeys([*EVERY][:3], "x") | other
    with pytest.raises(ResultError, match="its replies and its verdicts are not of the same problems"):
        read(written(tmp_path, replies=replies))


def test_a_problem_that_was_asked_twice_is_not_believed(tmp_path: Path) -> None:
    path = written(tmp_path) / "humaneval" / f"{NAME}.raw.jsonl"
    path.write_text(path.read_text() + json.dumps({"task_id": "HumanEval/1", "solution": "x"}))
    with pytest.raises(ResultError, match="it has several replies to HumanEval/1"):
        read(tmp_path)


def test_no_problem_is_no_row(tmp_path: Path) -> None:
    found = evalplus.results(written(tmp_path, {}), "humaneval")
    assert result.judged("humaneval", found, 0, "exit code 0").state == "failed"


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(["pass", "fail"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(every=st.dictionaries(st.text(max_size=8), st.lists(JSON, min_size=1, max_size=1)) | JSON, statuses=JSON)
def test_whatever_it_wrote_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, every: object, statuses: object
) -> None:
    folder = tmp_path_factory.mktemp("out")
    if isinstance(every, dict):
        every["HumanEval/1"] = [{"base_status": statuses, "plus_status": "pass", "base_fail_tests": statuses}]
    try:
        read(written(folder, every))
    except ResultError:
        return
