"""The results file of lm_eval: what is read of it in our names, what is left out, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from effort import bounded

from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.score_files import score_file
from rwkvctl.cli.score_files.lm_eval_results import ResultsError, TaskNumber, numbers
from rwkvctl.export import lm_eval
from rwkvctl.export.lm_eval_tasks import TASKS
from rwkvctl.protocol.errors import RwkvctlError

CHOICE = "multi_choice_plain.lm-eval"


def of_arc(**more: Any) -> dict[str, Any]:
    """A file with one task, as lm_eval lays it out."""
    return {
        "results": {"arc_easy": {"name": "arc_easy", "alias": "arc_easy", "sample_len": 2376, "acc,none": 0.25,
                                 "acc_stderr,none": 0.01, "acc_norm,none": 0.5, "acc_norm_stderr,none": "N/A"}},
        "group_subtasks": {"arc_easy": []},
        "configs": {"arc_easy": {"task": "arc_easy", "num_fewshot": 0}},
        "versions": {"arc_easy": 1.0},
        "n-shot": {"arc_easy": 0},
        "n-samples": {"arc_easy": {"original": 2376, "effective": 2376}},
        "chat_template": None, "system_instruction": None,
    } | more  # fmt: skip


def of_mmlu(**more: Any) -> dict[str, Any]:
    """A group of two groups with three leaves."""
    leaves = {"mmlu_anatomy": 135, "mmlu_law": 1534, "mmlu_logic": 126}
    groups = {"mmlu": ["mmlu_stem", "mmlu_humanities"], "mmlu_stem": ["mmlu_anatomy"],
              "mmlu_humanities": ["mmlu_law", "mmlu_logic"]}  # fmt: skip
    return {
        "results": {name: {"acc,none": 0.4, "alias": name} for name in (*groups, *leaves)},
        "groups": {name: {"acc,none": 0.4, "alias": name} for name in groups},
        "group_subtasks": groups,
        "n-shot": dict.fromkeys([*groups, *leaves], 0),
        "n-samples": {name: {"original": n, "effective": n} for name, n in leaves.items()},
    } | more


def refused(file: dict[str, Any]) -> str:
    """Return why the only task of a file is left out."""
    found, [why] = numbers(file)
    assert not found
    return why


def test_a_task_is_read_in_our_names() -> None:
    found, unknown = numbers(of_arc())
    assert unknown == []
    assert sorted(found) == [
        TaskNumber("arc_easy", CHOICE, "acc_norm", 0.5, 2376, 0, "arc_easy"),
        TaskNumber("arc_easy", CHOICE, "accuracy", 0.25, 2376, 0, "arc_easy"),
    ]


def test_a_group_has_the_rows_of_all_its_leaves_and_they_are_not_left_out() -> None:
    found, unknown = numbers(of_mmlu())
    assert (found, unknown) == ([TaskNumber("mmlu", CHOICE, "accuracy", 0.4, 135 + 1534 + 126, 0, "mmlu")], [])


def test_a_task_of_which_only_some_rows_were_asked_is_left_out() -> None:
    why = refused(of_arc(**{"n-samples": {"arc_easy": {"original": 2376, "effective": 10}}}))
    assert why == "arc_easy: only some of its rows were asked (--limit)"
    rest = {"mmlu_anatomy": {"original": 135, "effective": 100}}
    assert "mmlu: only some" in refused(of_mmlu(**{"n-samples": of_mmlu()["n-samples"] | rest}))


def test_a_task_without_a_number_does_not_take_the_others_with_it() -> None:
    file = of_arc()
    file["results"]["gsm8k"] = {"exact_match,strict-match": "N/A"}
    file["n-samples"]["gsm8k"], file["n-shot"]["gsm8k"] = {"original": 1319, "effective": 1319}, 5
    found, left_out = numbers(file)
    assert {one.benchmark for one in found} == {"arc_easy"}
    assert left_out == ["gsm8k: exact_match,strict-match is no number"]


def test_tasks_that_no_kind_repeats_are_named() -> None:
    file = of_mmlu()
    file["results"] |= {"piqa": {"acc,none": 0.7}, "mmlu_pro_law": {"acc,none": 0.1}}
    assert numbers(file)[1] == ["2 tasks that no kind of ours repeats: piqa, mmlu_pro_law"]


@pytest.mark.parametrize("field", ["chat_template", "system_instruction"])
def test_prompts_that_are_not_ours_are_refused(field: str) -> None:
    with pytest.raises(ResultsError, match=f"measured with a {field.replace('_', ' ')}"):
        numbers(of_arc(**{field: "{{ messages }}"}))


def test_other_settings_of_generation_are_refused() -> None:
    with pytest.raises(ResultsError, match="other settings of generation"):
        numbers(of_arc(config={"gen_kwargs": {"temperature": 0.7}}))
    assert numbers(of_arc(config={"gen_kwargs": None}))[0]


def test_parts_with_unlike_examples_are_left_out() -> None:
    why = refused(of_mmlu(**{"n-shot": {"mmlu_anatomy": 0, "mmlu_law": 5, "mmlu_logic": 0}}))
    assert why == "mmlu: its parts were asked with 0, 5 examples"


SIZES: list[Any] = [
    None, {}, [], {"arc_easy": None}, {"arc_easy": {}}, {"arc_easy": {"effective": 0}}, {"arc_easy": 5},
    {"arc_easy": {"effective": "5"}}, {"arc_easy": {"effective": 2.5}}, {"arc_easy": {"effective": True}},
]  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES, ids=json.dumps)
def test_a_task_is_left_out_if_the_file_does_not_say_how_many_rows_were_asked(sizes: Any) -> None:
    assert "arc_easy: n-samples does not say how many rows" in refused(of_arc(**{"n-samples": sizes}))


def test_a_group_of_which_one_leaf_has_no_size_is_left_out() -> None:
    file = of_mmlu()
    del file["n-samples"]["mmlu_law"]
    assert "mmlu: n-samples" in refused(file)


@pytest.mark.parametrize("text", ['"N/A"', "true", "null", "NaN", "Infinity", "1e999", "[0.5]", "1" + "0" * 400])
def test_a_value_that_is_no_number_is_refused_by_its_task(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(of_arc()).replace("0.25", text))
    with pytest.raises(UsageError, match=r"results.json has no score .*: arc_easy: acc,none is no number"):
        score_file.read(str(path), "m")


SHOTS: list[Any] = [{"arc_easy": [0]}, {"arc_easy": {}}, {"arc_easy": "0"}, {"arc_easy": True}, {}, [], None]


@pytest.mark.parametrize("shots", SHOTS, ids=json.dumps)
def test_a_task_is_left_out_if_the_file_does_not_say_with_how_many_examples_it_was_asked(shots: Any) -> None:
    assert "arc_easy: n-shot does not say" in refused(of_arc(**{"n-shot": shots}))


def test_another_version_of_a_task_is_left_out() -> None:
    why = refused(of_arc(results={"arc_easy": {"acc,other": 0.5}}))
    assert why.startswith("arc_easy has none of acc,none")


@pytest.mark.parametrize("text", ["{}", '{"results": {}}', '{"results": []}', '{"results": 3}'])
def test_json_without_results_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="it is no results file of lm_eval"):
        score_file.read(str(path), "m")


@pytest.mark.parametrize("text", ["[]", "[{}]", "{", "{'results': 1}", '{"results": {"a": ' + "[" * 100_000, "null"])
def test_what_is_no_object_of_json_is_refused_by_the_name_of_its_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(RwkvctlError, match=r"results\.json"):
        score_file.read(str(path), "m")


def test_a_file_without_any_task_of_ours_names_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": {"piqa": {"acc,none": 0.7}}}))
    with pytest.raises(UsageError, match="has no score that could be taken: 1 task that no kind of ours repeats: piqa"):
        score_file.read(str(path), "m")


@pytest.mark.parametrize("size", [1, 2, 8])
def test_groups_that_contain_each_other_end(size: int) -> None:
    names = ["mmlu", *(f"g{number}" for number in range(size - 1))]
    groups = {name: [*names, "mmlu_anatomy"] for name in names}
    with bounded("reading groups"):
        [one] = numbers(of_mmlu(group_subtasks=groups))[0]
    assert one.n == 135


def test_a_leaf_that_many_groups_share_is_found_once_and_soon() -> None:
    depth = 23
    levels = {f"g{level}{side}": [f"g{level + 1}a", f"g{level + 1}b"] for level in range(depth) for side in "ab"}
    ends = {f"g{depth}{side}": ["mmlu_anatomy"] for side in "ab"}
    with bounded("reading groups"):
        [one] = numbers(of_mmlu(group_subtasks={"mmlu": ["g0a", "g0b"], **levels, **ends}))[0]
    assert one.n == 135


@pytest.mark.parametrize(("benchmark", "kind"), TASKS)
def test_what_we_export_is_read_back_as_it_was(benchmark: str, kind: str, tmp_path: Path) -> None:
    shots, names = 4, list(TASKS[benchmark, kind].keys)
    metrics = {name: {"value": 0.125 * (number + 1), "stderr": 0.01} for number, name in enumerate(names)}
    score = {
        "job": "j3", "model": "m", "benchmark": benchmark, "kind": kind, "version": 1, "primary": names[0],
        "metrics": metrics, "n": 80, "rows": 80, "repeats": 1, "finished": "2026-01-01T00:00:00Z",
        "provenance": {"configuration": {"shots": {"count": shots}, "stages": []}},
    }  # fmt: skip
    [task] = lm_eval.task_names([score])
    path = tmp_path / "results.json"
    path.write_text(json.dumps(lm_eval.results("m", {task: score}, {}, 0.0)))
    found = score_file.read(str(path), "m")
    assert found.left_out == []
    assert {(one["benchmark"], one["kind"], one["n"], one["shots"]) for one in found.scores} == {
        (benchmark, kind, 80, shots)
    }
    assert {one["metric"]: one["value"] for one in found.scores} == {n: one["value"] for n, one in metrics.items()}
