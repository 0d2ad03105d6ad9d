"""Results: what counts as a number, and what they are worth."""

import math
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.harness.outputs import result
from rwkv_daemon.harness.outputs.result import HarnessMetric, HarnessResult, TaskResult, Traffic, judged, number

ACC = (HarnessMetric(name="acc", value=0.5),)


@pytest.mark.parametrize(("value", "known"), [(0, 0.0), (1.0, 1.0), (-2.5, -2.5), (7, 7.0)])
def test_a_finite_number_is_a_number(value: float, known: float) -> None:
    assert number(value) == (known, "")


@pytest.mark.parametrize(
    "value",
    [
        None,
        "N/A",
        "-",
        "",
        "0.5",
        True,
        False,
        math.nan,
        math.inf,
        -math.inf,
        pytest.param(10**400, id="huge"),
        [],
        {},
        [0.5],
    ],
)
def test_anything_else_is_none_with_a_reason(value: object) -> None:
    known, reason = number(value)
    assert known is None
    assert reason.startswith("the harness gave ")
    assert len(reason) < 100


def test_a_long_value_is_cut_in_the_reason() -> None:
    assert len(number("x" * 10_000)[1]) < 100


@pytest.mark.parametrize(
    ("task", "samples", "state", "why"),
    [
        (TaskResult(task="a", metrics=ACC, n=4), 4, "ok", ""),
        (TaskResult(task="a", metrics=ACC, n=4), 0, "partial", "0 of its 4 rows have a sample"),
        (TaskResult(task="a", metrics=ACC, n=4), 3, "partial", "3 of its 4 rows have a sample"),
        (TaskResult(task="a", metrics=ACC, n=4), 5, "partial", "5 of its 4 rows have a sample"),
        (TaskResult(task="a", metrics=ACC, n=4, n_error=1), 4, "partial", "1 of its 4 rows have no verdict"),
        (TaskResult(task="a", metrics=ACC, n=4, missing=("b", "c")), 4, "partial", "no result for b, c"),
        (TaskResult(task="a", metrics=ACC), 0, "failed", "the harness ended (exit code 0) and asked no row of a"),
        (
            TaskResult(task="a", metrics=ACC, n=4, n_error=2, missing=("b",)), 3, "partial",
            "no result for b; 3 of its 4 rows have a sample; 2 of its 4 rows have no verdict",
        ),
    ],
)  # fmt: skip
def test_what_a_result_is_worth_is_decided_by_count(task: TaskResult, samples: int, state: str, why: str) -> None:
    found = judged("a", {"a": task}, samples, "exit code 0")
    assert (found.state, found.why, found.task) == (state, why, task)


def test_without_a_result_of_the_task_it_has_failed_and_says_what_there_is() -> None:
    found = judged("a", {"c": TaskResult(task="c", n=1), "b": TaskResult(task="b", n=1)}, 0, "exit code 0")
    assert (found.state, found.task) == ("failed", None)
    assert found.why == "the harness ended (exit code 0) without a result for a; it has results of b, c"
    assert judged("a", {}, 9, "exit code 1").why == "the harness ended (exit code 1) without a result for a"


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    task = TaskResult(task="a", metrics=(HarnessMetric(name="acc", value=None, reason="none"),), n=2, parts={"b": 2})
    whole = HarnessResult(state="partial", why="x", task=task, samples=2, traffic=Traffic(requests=3, engines=["e"]))
    result.write(tmp_path, 2, whole)
    assert result.read(tmp_path, 2) == whole
    assert result.read(tmp_path, 1) is None


@pytest.mark.parametrize("content", [b"", b"{}", b'{"state":"fine"}', b"\xff"])
def test_a_torn_result_is_none(tmp_path: Path, content: Any) -> None:
    result.path_of(tmp_path, 1).write_bytes(content)
    assert result.read(tmp_path, 1) is None


def test_a_headline_that_its_rows_do_not_have_is_doubted() -> None:
    task = TaskResult(task="a", metrics=(HarnessMetric(name="acc", value=0.5),), n=4, mean=0.25)
    assert judged("a", {"a": task}, 4, "").why == "acc is 0.5, and the mean over its rows 0.25"
    other = TaskResult(task="a", metrics=(HarnessMetric(name="mcc", value=0.5),), n=4, mean=0.25)
    assert judged("a", {"a": other}, 4, "").state == "ok", "it is no mean"


def test_more_rows_than_the_limit_are_doubted() -> None:
    task = TaskResult(task="a", metrics=ACC, n=4, parts={"b": 2, "c": 2})
    assert judged("a", {"a": task}, 4, "", limit=2).state == "ok", "the limit is one of each task"
    assert judged("a", {"a": task}, 4, "", limit=1).why == "it asked more rows than --limit 1"
