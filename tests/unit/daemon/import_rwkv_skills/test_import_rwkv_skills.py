"""Reading what rwkv-skills wrote: three layouts, hostile lines, and numbers that do not add up."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.import_rwkv_skills import checked_files, old_summaries, tables, v3
from rwkv_daemon.import_rwkv_skills.benchmark_names import benchmark_of, kind_of, moment
from rwkv_daemon.import_rwkv_skills.checked_files import BadFileError, JsonLines
from rwkv_daemon.import_rwkv_skills.discovery import discover, model_of
from rwkv_daemon.import_rwkv_skills.import_run import names_of
from rwkv_daemon.import_rwkv_skills.imported_score import ImportedScore
from rwkv_daemon.import_rwkv_skills.rescore import recount, rows_identity
from rwkv_daemon.import_rwkv_skills.storing import by_subject, import_key
from rwkv_data.definition import registry

MODEL = "rwkv7-g1d-0.4b-20260210-ctx8192"
FOLDER = "rwkv7_g1d_0_4b_20260210_ctx8192"
KNOWN = {"gsm8k", "math_500", "mmlu", "ifeval", "human_eval_plus", "minerva_ocw", "gpqa"}


def write(path: Path, *records: Any, as_document: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(records[0], ensure_ascii=False, indent=2) if as_document else "\n".join(map(json.dumps, records))
    path.write_text(text + "\n", encoding="utf-8")
    return path


def trace(row: int, repeat: int = 0, stop: str = "stop_token", **more: Any) -> dict[str, Any]:
    return {
        "benchmark_name": "gsm8k",
        "dataset_split": "test",
        "sample_index": row,
        "repeat_index": repeat,
        "sampling_config": {"stage1": {"temperature": 0.3}},
        "prompt1": f"User: Q{row}\n\nAssistant: <think>",
        "completion1": f" think {row}.{repeat}",
        "stop_reason1": stop,
        "prompt2": "\nTherefore",
        "completion2": f" {row}",
        "stop_reason2": "stop_token",
        **more,
    }


def verdict(row: int, repeat: int = 0, *, passed: bool, **more: Any) -> dict[str, Any]:
    return {
        "benchmark_name": "gsm8k",
        "dataset_split": "test",
        "sample_index": row,
        "repeat_index": repeat,
        "context": "...",
        "answer": str(row),
        "ref_answer": f"gold {row}",
        "is_passed": passed,
        "fail_reason": "" if passed else "incorrect",
        **more,
    }


def score(**more: Any) -> dict[str, Any]:
    return {
        "dataset": "gsm8k_test",
        "model": MODEL,
        "cot": True,
        "metrics": {"judge_accuracy": 0.5, "exact_accuracy": 0.1},
        "samples": 4,
        "problems": 4,
        "created_at": "2026-03-01T10:00:00",
        "log_path": "x",
        "task": "free_response_judge",
        **more,
    }


def v3_tree(root: Path) -> Path:
    write(root / "scores" / FOLDER / "gsm8k_test__cot.json", score(), as_document=True)
    write(
        root / "completions" / FOLDER / "gsm8k_test__cot.jsonl",
        *(trace(row) for row in range(3)),
        trace(3, 0, "max_length"),
    )
    write(root / "eval" / FOLDER / "gsm8k_test__cot_results.jsonl", *(verdict(row, passed=row < 2) for row in range(4)))
    return root


def read_only(path: Path) -> ImportedScore:
    [(_, read)] = discover(path).readers()
    return read()


def test_v3_files_of_one_score_are_one_finding(tmp_path: Path) -> None:
    imported = read_only(v3_tree(tmp_path / "results"))
    assert (imported.model, imported.dataset, imported.cot, imported.layout) == (MODEL, "gsm8k_test", True, "v3")
    assert (len(imported.verdicts), len(imported.places), imported.stages, imported.cut_off) == (4, 4, 2, 1)
    assert len(imported.files) == 3
    assert all(len(sha256) == 64 for sha256 in imported.files.values())
    assert imported.sampling == {"stage1": {"temperature": 0.3}}
    found = recount(imported)
    assert (found.primary, found.rows, found.repeats, found.why_null) == ("accuracy", 4, 1, "")
    assert found.metrics["accuracy"].value == 0.5
    assert found.disagreements == (), "the exact accuracy is about verdicts that a judge's run does not keep"
    [first, *_] = list(imported.traces()) if imported.traces else []
    assert [turn.stop for turn in first.turns] == ["stop_token", "stop_token"]


def test_one_file_brings_its_companions(tmp_path: Path) -> None:
    root = v3_tree(tmp_path / "results")
    whole = read_only(root)
    for name in ("scores", "eval", "completions"):
        [file] = (root / name / FOLDER).iterdir()
        assert read_only(file).files == whole.files


def test_repeats_are_recounted_and_disagreements_named(tmp_path: Path) -> None:
    root = tmp_path / "results"
    metrics = {"pass@2": 1.0, "avg@2": 0.9, "accuracy": 0.5}
    write(
        root / "scores" / FOLDER / "aime24_test.json",
        score(dataset="aime24_test", metrics=metrics, samples=4),
        as_document=True,
    )
    verdicts = [verdict(row, repeat, passed=repeat == row) for row in range(2) for repeat in range(2)]
    write(root / "eval" / FOLDER / "aime24_test_results.jsonl", *verdicts, verdict(0, 0, passed=False))
    found = recount(imported := read_only(root))
    assert imported.duplicates == 1
    assert (found.primary, found.repeats) == ("avg@2", 2)
    assert {name: view.value for name, view in found.metrics.items()} == {"avg@2": 0.5, "pass@2": 1.0}
    assert found.disagreements == ("avg@2 is 0.9 there, its samples give 0.5",)


def test_samples_without_verdicts_or_repeats_give_no_number(tmp_path: Path) -> None:
    root = v3_tree(tmp_path / "a")
    write(root / "eval" / FOLDER / "gsm8k_test__cot_results.jsonl", *(verdict(row, passed=True) for row in range(3)))
    found = recount(read_only(root))
    assert found.why_null == "1 of 4 samples came without a verdict"
    assert found.metrics["accuracy"].value is None
    ragged = tmp_path / "b" / "eval" / "m" / "x_results.jsonl"
    write(ragged, verdict(0, 0, passed=True), verdict(0, 1, passed=True), verdict(1, 0, passed=True))
    assert recount(read_only(ragged)).why_null == "3 of 4 samples came: not every row has 2"


def table_tree(root: Path, **task: Any) -> Path:
    def place(table: str) -> Path:
        return root / table / FOLDER / "math_500_test.jsonl"

    context = {
        "stages": [{"prompt": "P", "completion": "C", "stop_reason": "max_length"}],
        "sampling_config": {"stage1": {}},
    }
    write(place("benchmark"), {"benchmark_id": 1, "benchmark_name": "math_500", "benchmark_split": "test"})
    write(place("model"), {"model_id": 1, "model_name": MODEL})
    write(
        place("task"),
        {"task_id": 7, "evaluator": "eval_free_response", "git_hash": "abc", "sampling_config": None} | task,
    )
    rows = [
        {
            "completions_id": 10 + n,
            "task_id": 7,
            "context": context,
            "sample_index": n,
            "repeat_index": 0,
            "status": "answer",
        }
        for n in range(2)
    ]
    write(place("completions"), *rows)
    answers = [
        {
            "eval_id": n,
            "completions_id": 10 + n,
            "answer": "1",
            "ref_answer": "2",
            "is_passed": n == 0,
            "fail_reason": "",
        }
        for n in range(2)
    ]
    write(place("eval"), *answers)
    scores = [
        {
            "score_id": n,
            "task_id": 7,
            "is_cot": True,
            "metrics": {"avg@1": 0.1 * n},
            "created_at": f"2026-03-0{n}T00:00:00",
        }
        for n in (2, 1)
    ]
    write(place("scores"), *scores)
    return root


def test_tables_are_joined(tmp_path: Path) -> None:
    imported = read_only(table_tree(tmp_path / "results"))
    assert (imported.model, imported.dataset, imported.task) == (MODEL, "math_500_test", "eval_free_response")
    assert imported.metrics == {"avg@1": 0.2}, "the newest score counts"
    assert imported.created == "2026-03-02T00:00:00"
    assert (len(imported.verdicts), imported.cut_off, len(imported.files)) == (2, 2, 6)
    assert recount(imported).disagreements == ("avg@1 is 0.2 there, its samples give 0.5",)
    assert imported.more["git_hash"] == "abc"


def test_tables_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    root = table_tree(tmp_path / "results")
    path = root / "eval" / FOLDER / "math_500_test.jsonl"
    write(path, {"eval_id": 1, "completions_id": 99, "is_passed": True})
    with pytest.raises(BadFileError, match=r"math_500_test.jsonl:1: completions_id names no row"):
        read_only(root)
    write(root / "model" / FOLDER / "math_500_test.jsonl", {"model_id": 1}, {"model_id": 2})
    with pytest.raises(BadFileError, match="2 rows, where the exporter writes one"):
        read_only(root)


def test_trials_of_a_search_are_no_scores(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="a trial of a parameter search"):
        read_only(table_tree(tmp_path / "results", is_param_search=True))
    trial = tmp_path / "r" / "param_search" / "scores" / FOLDER / "gsm8k_test" / "trial_0.json"
    write(trial, score(), as_document=True)
    found = discover(tmp_path / "r")
    assert (found.ignored, list(found.readers())) == (1, [])


@pytest.mark.parametrize(
    ("name", "record", "expected"),
    [
        (
            "cot_llm_judge_gsm8k.json",
            {"model": "m", "dataset": "data/gsm8k/test.jsonl", "accuracy": 0.5, "total": 8},
            ("m", "gsm8k_test", "free_response_judge", True, {"judge_accuracy": 0.5}, 8),
        ),
        (
            "results_mmlu.json",
            {"model": "x", "model_path": "/w/m.pth", "dataset_slug": "mmlu_test", "accuracy": 0.25},
            ("m", "mmlu_test", "", False, {"accuracy": 0.25}, 0),
        ),
        (
            "a.json",
            {
                "model": "m",
                "dataset_slug": "math",
                "benchmark": "cot_general_math",
                "metrics": {"ExactMatchMetric": {"accuracy": 0.1}, "JudgeMetric": {"value": 0.0}},
                "generations": [1, 2],
            },
            ("m", "math", "free_response", True, {"exact_accuracy": 0.1, "judge_accuracy": 0.0}, 2),
        ),
        (
            "if.json",
            {
                "model": "m",
                "dataset_slug": "ifeval_test",
                "benchmark": "instruction_following_ifeval_test",
                "metrics": {
                    "InstructionFollowingMetric": {
                        "prompt_level": {"strict": 0.4, "loose": 0.5},
                        "instruction_level": {"strict": 0.6},
                    }
                },
            },
            (
                "m",
                "ifeval_test",
                "instruction_following",
                False,
                {"prompt_accuracy": 0.4, "instruction_accuracy": 0.6},
                0,
            ),
        ),
        (
            "scores.json",
            {
                "input_data": "ifeval/input_data.jsonl",
                "response_file": "out/m_no_think.jsonl",
                "results": {"strict": {"prompt_accuracy": 0.2, "instruction_accuracy": 0.3, "prompt_total": 541}},
            },
            (
                "m",
                "ifeval_test",
                "instruction_following",
                False,
                {"prompt_accuracy": 0.2, "instruction_accuracy": 0.3},
                541,
            ),
        ),
    ],
)
def test_old_summaries(tmp_path: Path, name: str, record: dict[str, Any], expected: tuple[object, ...]) -> None:
    imported = read_only(write(tmp_path / name, record, as_document=True))
    assert (
        imported.model,
        imported.dataset,
        imported.task,
        imported.cot,
        imported.metrics,
        imported.samples,
    ) == expected
    found = recount(imported)
    assert all(view.ci_low is None for view in found.metrics.values()), "no interval without samples"
    assert not found.disagreements


def test_numbers_without_samples_come_as_they_are() -> None:
    imported = ImportedScore(source=Path("x"), layout="summary", model="m", dataset="d", metrics={"accuracy": 53.2})
    assert recount(imported).metrics["accuracy"].unit == "points"
    assert recount(ImportedScore(source=Path("x"), layout="summary", model="m", dataset="d")).why_null


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"sample_index": 0, "repeat_index": 0, "prompt1": "\\ud800"}', "no JSON"),
        (b'{"sample_index": 0, "repeat_index": 0, "x": NaN}', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b'{"sample_index": true, "repeat_index": 0}', "sample_index is no whole number"),
        (b'{"sample_index": -1, "repeat_index": 0}', "sample_index is no whole number"),
        (b'{"sample_index": 1, "repeat_index": 123456789012345678901234567890}', "repeat_index is no whole number"),
        (b'{"sample_index": 1, "repeat_index": 0, "prompt1": 7}', "prompt1 is no text"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: bytes, says: str) -> None:
    path = tmp_path / "completions" / "m" / "gsm8k_test.jsonl"
    write(path, trace(0))
    path.write_bytes(path.read_bytes() + b"\n" + line + b"\n")
    with pytest.raises(BadFileError, match=says) as caught:
        read_only(path)
    assert str(caught.value).startswith(f"{path}:3: ")


def test_lines_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.jsonl", {"a": "b" * 200})
    monkeypatch.setattr(checked_files, "LONGEST_LINE", 100)
    with pytest.raises(BadFileError, match=r"x\.jsonl:1: the line"):
        list(JsonLines(path).records())
    monkeypatch.setattr(checked_files, "LONGEST_LINE", 1000)
    monkeypatch.setattr(checked_files, "MOST_LINES", 2)
    with pytest.raises(BadFileError, match=r"x\.jsonl:3"):
        list(JsonLines(write(path, *[{}] * 3)).records())


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "completions" / "m"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "gsm8k_test.jsonl")
    (folder / "linked.jsonl").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = discover(tmp_path)
    assert [str(error) for error in found.refused] == [f"{folder}/gsm8k_test.jsonl is no regular file"]
    assert not list(found.readers())


def test_a_file_that_changes_between_two_readings_is_refused(tmp_path: Path) -> None:
    root = v3_tree(tmp_path / "results")
    imported = read_only(root)
    path = root / "completions" / FOLDER / "gsm8k_test__cot.jsonl"
    path.write_bytes(path.read_bytes().replace(b"think 1", b"think 9"))
    assert imported.traces
    with pytest.raises(BadFileError, match="changed while it was read"):
        list(imported.traces())


def test_other_files_are_ignored(tmp_path: Path) -> None:
    write(tmp_path / "package.json", {"name": "x"}, as_document=True)
    write(tmp_path / "list.json", [1], as_document=True)
    write(tmp_path / "rows.jsonl", {"question": "Q"})
    (tmp_path / "notes.txt").write_text("x")
    found = discover(tmp_path)
    assert (found.ignored, found.refused, list(found.readers())) == (3, [], [])


def test_files_older_than_v3_say_what_to_do(tmp_path: Path) -> None:
    path = write(
        tmp_path / "completions" / "m" / "gsm8k_test.jsonl", {"problem_index": 0, "sample_id": 0, "output1": "x"}
    )
    [error] = discover(path).refused
    assert "migrate_results_schema_v3" in str(error)


def test_the_key_is_of_the_content(tmp_path: Path) -> None:
    keys = []
    for name in ("one", "two"):
        imported = read_only(v3_tree(tmp_path / name))
        keys.append(import_key(imported, "gsm8k", kind_of(imported)))
    assert keys[0] == keys[1]
    write(tmp_path / "two" / "eval" / FOLDER / "gsm8k_test__cot_results.jsonl", verdict(0, passed=True))
    changed = read_only(tmp_path / "two")
    assert import_key(changed, "gsm8k", kind_of(changed)) != keys[0]


def test_rows_are_known_by_their_reference_answers(tmp_path: Path) -> None:
    imported = read_only(v3_tree(tmp_path / "a"))
    other = read_only(v3_tree(tmp_path / "b"))
    assert rows_identity(imported.verdicts) == rows_identity(other.verdicts) != ""
    other.verdicts[0, 0] = other.verdicts[0, 0]._replace(expected="7")
    assert rows_identity(imported.verdicts) != rows_identity(other.verdicts)
    assert rows_identity({}) == ""


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("gsm8k_test", "gsm8k"),
        ("math_500_test", "math_500"),
        ("math500", "math_500"),
        ("gpqa_main", "gpqa"),
        ("minerva_math_test", "minerva_ocw"),
        ("humanevalplus", "human_eval_plus"),
        ("ifeval_test", "ifeval"),
        ("my_own_test", "my_own_test"),
        ("Weird Set!", "weird_set"),
        ("../../etc/passwd", "etc_passwd"),
        ("", "unknown"),
    ],
)
def test_names_of_data_sets(dataset: str, name: str) -> None:
    assert benchmark_of(dataset, KNOWN) == name


@pytest.mark.parametrize(
    ("task", "metrics", "cot", "kind"),
    [
        ("free_response_judge", {}, True, "free_response_judge"),
        ("eval_code_human_eval", {}, None, "code_human_eval"),
        ("multiple_choice", {}, False, "multi_choice_plain"),
        ("", {"accuracy": 1.0}, True, "multi_choice_cot"),
        ("", {"prompt_accuracy": 1.0}, False, "instruction_following"),
        ("x", {}, True, "cot"),
        ("", {}, None, "unknown"),
    ],
)
def test_kinds(task: str, metrics: dict[str, float], cot: bool | None, kind: str) -> None:
    assert (
        kind_of(
            ImportedScore(source=Path("x"), layout="v3", model="m", dataset="d", task=task, metrics=metrics, cot=cot)
        )
        == kind
    )


@pytest.mark.parametrize(
    ("file", "dataset", "kind"),
    [
        ("cot_gsm8k.json", "data/gsm8k/test.jsonl", "free_response"),
        ("cot_llm_judge_gsm8k.json", "data/gsm8k/test.jsonl", "free_response_judge"),
        ("cot_mmlu.json", "mmlu_test", "multi_choice_cot"),
        ("results_mmlu.json", "mmlu_test", "multi_choice_plain"),
        ("results_humaneval.json", "humaneval_test", "code_human_eval"),
        ("results_nocot_gsm8k.json", "gsm8k_test", "free_response"),
        ("mmlu_cot_1.json", "mmlu_test", "multi_choice_cot"),
        ("cot_unheard.json", "unheard_test", "multi_choice_cot"),
    ],
)
def test_an_old_summary_is_of_a_kind_that_its_set_has(tmp_path: Path, file: str, dataset: str, kind: str) -> None:
    record = {"model": "m", "dataset": dataset, "accuracy": 0.5}
    imported = read_only(write(tmp_path / file, record, as_document=True))
    catalogue = registry.Catalogue()
    assert names_of(imported, {name: catalogue.load(name) for name in ("gsm8k", "mmlu", "human_eval")})[1] == kind


def test_scores_by_subject_come_along(tmp_path: Path) -> None:
    given = {"law": {"accuracy": 50.0, "total": 30, "correct": 15}, "maths": 20, "x": {"correct": 1}, "y": None}
    record = {"model": "m", "dataset_slug": "mmlu_test", "accuracy": 40.0, "score_by_subject": given}
    imported = read_only(write(tmp_path / "results_mmlu.json", record, as_document=True))
    assert imported.samples == 30
    expected = {"law": {"value": 0.5, "rows": 30}, "maths": {"value": 0.2, "rows": 0}}
    assert by_subject(imported, recount(imported)) == {"groups": expected, "macro": 0.35}
    details = {"task_details": {"accuracy_by_subject": {"law": 0.5}}}
    (today,) = discover(write(tmp_path / "v3" / "a.json", score(**details), as_document=True)).readers()
    assert today[1]().subjects == {"law": {"value": 0.5, "rows": 0}}


def test_times_may_be_numbers(tmp_path: Path) -> None:
    for time in (1772330400, 1772330400000, 1772330400.0, "1772330400", "2026-03-01T10:00:00", "20260301100000"):
        record = {"model": "m", "dataset_slug": "d", "accuracy": 0.5, "timestamp": time}
        imported = read_only(write(tmp_path / "a.json", record, as_document=True))
        assert moment(imported.created) == "2026-03-01T02:00:00.000Z"
    assert moment("20260301") == "2026-02-28T16:00:00.000Z"
    for no_time in ("99999999999999", "1" * 40, "123456789x", "0"):
        assert not moment(no_time)


def test_names_of_models_and_moments() -> None:
    assert model_of(FOLDER) == MODEL
    assert model_of("rwkv7_g1_2_9b") == "rwkv7-g1-2.9b"
    assert moment("2026-03-01T10:00:00") == "2026-03-01T02:00:00.000Z", "without a zone it is Shanghai's"
    assert moment("2026-03-01T10:00:00Z") == "2026-03-01T10:00:00.000Z"
    assert moment("0001-01-01T00:00:00") == ""
    assert moment("yesterday") == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "sample_index",
                    "repeat_index",
                    "prompt1",
                    "completion1",
                    "stop_reason1",
                    "sampling_config",
                    "context",
                    "stages",
                    "prompt",
                    "completion",
                    "stop_reason",
                    "metrics",
                    "results",
                    "strict",
                    "model",
                    "dataset",
                    "accuracy",
                    "task",
                    "response_file",
                    "benchmark",
                    "cot",
                    "total",
                    "generations",
                ]
            ),
            inner,
            max_size=8,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=12) | st.just("sample_index"), JSON, max_size=6) | JSON)
def test_whatever_a_line_holds_it_is_read_or_refused(value: Any) -> None:
    record = (
        value if isinstance(value, dict) else {"sample_index": 0, "repeat_index": 0, "context": value, "prompt1": value}
    )
    for read in (v3.trace_of, tables.trace_of):
        try:
            found = read(record, "x:1")
        except BadFileError:
            continue
        assert all(isinstance(text, str) for turn in found.turns for text in turn)
    if old_summaries.is_summary(record):
        imported = (
            old_summaries.ifeval(Path("x"), record)
            if old_summaries.is_ifeval(record)
            else old_summaries.plain(Path("x"), record)
        )
        assert recount(imported).primary
