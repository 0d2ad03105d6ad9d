"""Reading what lm_eval 0.4.13 writes."""

import json
import math
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.harness.outputs import files, lm_eval
from rwkv_daemon.harness.outputs.lm_eval import LmEvalSamples
from rwkv_daemon.harness.outputs.result import HarnessMetric, NoResultsError, ResultError, TaskResult
from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord, record_decoder

TIME = "2026-11-29T01-50-53.289574"


def sized(**tasks: int) -> dict[str, Any]:
    return {task: {"original": 40, "effective": rows} for task, rows in tasks.items()}


def whole_file() -> dict[str, Any]:
    """A group `sums` of a task with choices and one that generates, as lm_eval writes it."""
    group = {"alias": "sums", "name": "sums", "sample_len": 80, "acc,none": 0.75, "acc_stderr,none": 0.1,
             "sample_count": {"acc,none": 40}}  # fmt: skip
    return {
        "results": {
            "sums_mc": {
                "name": "sums_mc", "alias": "sums_mc", "sample_len": 40, "acc,none": 0.75, "acc_stderr,none": 0.1,
                "acc_norm,none": 0.5, "acc_norm_stderr,none": "N/A",
            },
            "sums_gen": {
                "name": "sums_gen", "alias": "sums_gen", "sample_len": 40, "exact_match,strict": 0.25,
                "exact_match_stderr,strict": 0.01,
            },
            "sums": group,
        },
        "groups": {"sums": group},
        "group_subtasks": {"sums": ["sums_mc", "sums_gen"]},
        "versions": {"sums": "1", "sums_mc": 1.0, "sums_gen": 1.0},
        "n-shot": {"sums": 0, "sums_mc": 5, "sums_gen": 0},
        "n-samples": sized(sums_mc=40, sums_gen=10),
        "config": {"model": "local-completions", "limit": None},
    }  # fmt: skip


def written(folder: Path, content: object, *, name: str = f"results_{TIME}.json") -> Path:
    (folder / "model").mkdir(exist_ok=True)
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "model" / name).write_bytes(text)
    return folder


def read(folder: Path, **changes: Any) -> dict[str, TaskResult]:
    return lm_eval.results(written(folder, whole_file() | changes), "sums")


def test_a_task_has_its_metrics_under_their_filters_its_rows_version_and_shots(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found.keys() == {"sums", "sums_mc", "sums_gen"}
    assert found["sums_mc"] == TaskResult(
        task="sums_mc",
        metrics=(HarnessMetric(name="acc", value=0.75, stderr=0.1), HarnessMetric(name="acc_norm", value=0.5)),
        n=40, whole=40, version="1.0", shots="5",
    )  # fmt: skip
    assert found["sums_gen"].metrics == (HarnessMetric(name="exact_match,strict", value=0.25, stderr=0.01),)
    assert (found["sums_gen"].n, found["sums_gen"].whole) == (10, 40)


def test_a_group_has_the_rows_of_its_parts_together(tmp_path: Path) -> None:
    group = read(tmp_path)["sums"]
    assert group.metrics == (HarnessMetric(name="acc", value=0.75, stderr=0.1),)
    assert (group.n, group.whole, group.parts) == (50, 80, {"sums_mc": 40, "sums_gen": 10})
    assert (group.missing, group.version) == ((), "1")


@pytest.mark.parametrize(
    "value", [None, "N/A", "-", "", " ", "0.5", True, [0.5], {}, math.nan, math.inf, pytest.param(10**400, id="huge")]
)
def test_a_metric_that_is_no_number_is_none_with_a_reason(tmp_path: Path, value: object) -> None:
    task = read(tmp_path, results={"a": {"alias": "a", "acc,none": value, "acc_stderr,none": 0.1}})["a"]
    assert [metric.value for metric in task.metrics] == [None]
    assert task.metrics[0].reason


@pytest.mark.parametrize("value", [None, "N/A", "-", True, math.nan, math.inf, pytest.param(10**400, id="huge")])
def test_an_error_that_is_no_number_is_none(tmp_path: Path, value: object) -> None:
    found = read(tmp_path, results={"a": {"acc,none": 0.5, "acc_stderr,none": value}, "b": {"acc,none": 0.5}})
    assert [found[task].metrics for task in "ab"] == [(HarnessMetric(name="acc", value=0.5),)] * 2


@pytest.mark.parametrize(
    "sizes", [None, {}, [], {"a": 5}, {"a": {}}, {"a": {"effective": "9"}}, {"a": {"effective": True}},
              {"a": {"effective": -1}}, {"a": {"effective": 2.5}}, {"a": {"effective": None}}],
)  # fmt: skip
def test_rows_that_the_file_does_not_count_are_none(tmp_path: Path, sizes: object) -> None:
    changes = {"results": {"a": {"acc,none": 0.5}}, "n-samples": sizes}
    task = read(tmp_path, **changes)["a"]
    assert (task.n, task.whole) == (0, None)


def test_parts_without_rows_or_without_a_number_are_missing(tmp_path: Path) -> None:
    results = whole_file()["results"] | {"sums_mc": {"alias": "x", "acc,none": "N/A"}}
    assert read(tmp_path, results=results)["sums"].missing == ("sums_mc",)
    del results["sums_gen"]
    assert read(tmp_path, results=results)["sums"].missing == ("sums_mc", "sums_gen")
    assert read(tmp_path, **{"n-samples": sized(sums_gen=10)})["sums"].missing == ("sums_mc",)


def test_groups_of_groups_are_made_of_the_tasks_below(tmp_path: Path) -> None:
    below = {"sums": ["one", "sums_gen"], "one": ["two"], "two": ["sums_mc", "sums_gen"], "sums_mc": []}
    assert read(tmp_path, group_subtasks=below)["sums"].parts == {"sums_gen": 10, "sums_mc": 40}


@pytest.mark.parametrize(
    "below",
    [{"sums": ["sums"]}, {"sums": ["a"], "a": ["sums"]}, {"sums": ["a"], "a": ["b"], "b": ["a"]}, {"sums": 5},
     {"sums": "sums_mc"}, {"sums": [None, 5, ["sums_mc"]]}, [], None],
)  # fmt: skip
def test_a_group_in_a_circle_or_of_nothing_has_no_parts(tmp_path: Path, below: object) -> None:
    task = read(tmp_path, group_subtasks=below)["sums"]
    assert (task.parts, task.n) == ({}, 0)


def test_the_headline_is_the_first_metric_of_the_file(tmp_path: Path) -> None:
    results = {"gsm8k": {"exact_match,strict-match": 0.1, "exact_match,flexible-extract": 0.2}}
    names = [metric.name for metric in read(tmp_path, results=results)["gsm8k"].metrics]
    assert names == ["exact_match,strict-match", "exact_match,flexible-extract"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        pytest.param(b"[" * 100_000, id="deep"),
        b"5",
        b"[]",
        b"{}",
        b'{"results": []}',
        b'{"results": null}',
        pytest.param(b"1" * 5000, id="long"),
    ],
)
def test_a_file_that_is_no_results_is_an_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ResultError):
        lm_eval.results(written(tmp_path, content), "sums")


def test_no_file_and_two_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(NoResultsError, match="no results"):
        lm_eval.results(tmp_path, "sums")
    written(written(tmp_path, whole_file()), whole_file(), name="results_2027.json")
    with pytest.raises(ResultError, match="2 files"):
        lm_eval.results(tmp_path, "sums")


NAMES = st.sampled_from(
    ["a", "b", "acc,none", "acc_stderr,none", "acc", "", ",", "alias", "effective", "original", "gen_args_0", "arg_0"]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400) | st.sampled_from(["N/A", "-", "a", "b"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)
TABLES = ["results", "groups", "group_subtasks", "n-samples", "versions", "n-shot"]


@given(st.dictionaries(st.sampled_from(TABLES), st.dictionaries(NAMES, JSON, max_size=3) | JSON))
def test_any_json_gives_results_or_an_error_and_no_number_that_is_not_in_it(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]
) -> None:
    folder = written(tmp_path_factory.mktemp("out"), content)
    try:
        found = lm_eval.results(folder, "sums")
    except ResultError:
        return
    given_numbers = set(numbers_in(content))
    for task in found.values():
        assert msgspec.json.decode(msgspec.json.encode(task), type=TaskResult) == task
        for metric in task.metrics:
            assert (metric.value is None) == bool(metric.reason)
            assert {metric.value, metric.stderr} - {None} <= given_numbers


def numbers_in(value: object) -> list[float]:
    if isinstance(value, dict | list):
        return [one for inner in (value.values() if isinstance(value, dict) else value) for one in numbers_in(inner)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def choice(doc: int, **changes: Any) -> dict[str, Any]:
    """A sample of a task with choices."""
    resps = [["-0.5", "True"], ["-1.5", "False"]]
    arguments = {f"gen_args_{n}": {"arg_0": f"{doc}+1=", "arg_1": text} for n, text in enumerate(("right", "wrong"))}
    return {
        "doc_id": doc, "doc": {}, "target": "1", "arguments": arguments, "resps": [[one] for one in resps],
        "filtered_resps": resps, "filter": "none", "metrics": ["acc"], "doc_hash": f"d{doc}", "target_hash": "t",
        "acc": 0.0,
    } | changes  # fmt: skip


def generated(doc: int, kind: str = "strict", **changes: Any) -> dict[str, Any]:
    """A sample of a task that generates, under one filter."""
    return {
        "doc_id": doc, "doc": {}, "target": "3", "arguments": {"gen_args_0": {"arg_0": "1+2=", "arg_1": {"until": []}}},
        "resps": [["it is 3"]], "filtered_resps": ["3"], "filter": kind, "metrics": ["exact_match"],
        "doc_hash": f"d{doc}", "target_hash": "t", "exact_match": 1.0,
    } | changes  # fmt: skip


def wrote_samples(folder: Path, task: str, *lines: dict[str, Any]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    written(folder, text.encode(), name=f"samples_{task}_{TIME}.jsonl")


def samples_of(folder: Path, task: str, *headlines: str) -> tuple[LmEvalSamples, list[Record]]:
    metrics = tuple(HarnessMetric(name=name, value=0.5) for name in headlines)
    samples = LmEvalSamples(folder, task, {task: TaskResult(task=task, metrics=metrics, n=1)}, "engine")
    return samples, list(samples.records())


def one_sample(folder: Path, headline: str, line: dict[str, Any]) -> tuple[StageRecord, SampleRecord]:
    wrote_samples(folder, "a", line)
    _, (stage, sample) = samples_of(folder, "a", headline)
    assert isinstance(stage, StageRecord)
    assert isinstance(sample, SampleRecord)
    for record in (stage, sample):
        assert record_decoder.decode(msgspec.json.encode(record)) == record
    return stage, sample


def test_a_choice_has_its_log_probabilities_and_texts(tmp_path: Path) -> None:
    stage, sample = one_sample(tmp_path, "acc", choice(0))
    assert (stage.prompt, stage.text, stage.stop, stage.choice) == ("0+1=", "right", "choice", 0)
    assert (stage.logprobs, stage.greedy, stage.engine) == ((-0.5, -1.5), (True, False), "engine")
    assert (sample.value, sample.expected, sample.extracted, sample.parts) == (0.0, "wrong", "right", {"acc": 0.0})


def test_a_generated_answer_has_its_text_and_what_the_filter_took(tmp_path: Path) -> None:
    stage, sample = one_sample(tmp_path, "exact_match,strict", generated(0))
    assert (stage.prompt, stage.text, stage.stop, stage.choice) == ("1+2=", "it is 3", "stop_suffix", None)
    assert (sample.value, sample.expected, sample.extracted) == (1.0, "3", "3")
    assert sample.parts == {"exact_match,strict": 1.0}


def test_a_row_under_several_filters_is_one_sample_with_the_numbers_of_all(tmp_path: Path) -> None:
    lines = [generated(doc, kind, exact_match=float(kind == "loose")) for kind in ("loose", "strict") for doc in (4, 2)]
    wrote_samples(tmp_path, "a", *lines, generated(4))
    samples, records = samples_of(tmp_path, "a", "exact_match,strict", "exact_match,loose")
    graded = [record for record in records if isinstance(record, SampleRecord)]
    assert [(record.row, record.value) for record in graded] == [(0, 0.0), (1, 0.0)]
    assert graded[1].parts == {"exact_match,strict": 0.0, "exact_match,loose": 1.0}
    assert (samples.tally.count, samples.tally.n_error) == (2, 0)


def test_the_parts_of_a_group_are_numbered_through_and_hashed_in_order(tmp_path: Path) -> None:
    wrote_samples(tmp_path, "sums_mc", choice(0), choice(1))
    wrote_samples(tmp_path, "sums_gen", generated(0))
    samples = LmEvalSamples(tmp_path, "sums", read(tmp_path), "")
    rows = [(record.row, record.value) for record in samples.records() if isinstance(record, SampleRecord)]
    assert rows == [(0, 0.0), (1, 0.0), (2, 1.0)]
    again = LmEvalSamples(tmp_path, "sums", read(tmp_path), "")
    assert list(again.records())
    assert again.tally.counted(again.result).rows_sha256 == samples.tally.counted(samples.result).rows_sha256
    wrote_samples(tmp_path, "sums_gen", generated(0, doc_hash="other"))
    other = LmEvalSamples(tmp_path, "sums", read(tmp_path), "")
    assert list(other.records())
    assert other.tally.counted(other.result).rows_sha256 != samples.tally.counted(samples.result).rows_sha256


def test_the_samples_of_a_task_whose_name_begins_with_that_of_another_are_not_its_own(tmp_path: Path) -> None:
    wrote_samples(tmp_path, "sums_more", choice(0))
    assert samples_of(tmp_path, "sums", "acc")[1] == []


@pytest.mark.parametrize("value", [None, "N/A", "-", math.nan, math.inf, pytest.param(10**400, id="huge"), {}])
def test_a_row_without_a_number_has_no_verdict_but_a_reason(tmp_path: Path, value: object) -> None:
    wrote_samples(tmp_path, "a", choice(0, acc=value))
    samples, (_, sample) = samples_of(tmp_path, "a", "acc")
    assert isinstance(sample, SampleRecord)
    assert (sample.value, sample.reason, sample.parts) == (None, "error", {})
    assert sample.detail
    assert (samples.tally.count, samples.tally.n_error) == (1, 1)


@pytest.mark.parametrize("link", [True, False])
def test_results_that_are_no_files_of_the_harness_are_not_read(tmp_path: Path, link: bool) -> None:
    """A link may lead to what only the daemon can read; reading a pipe would never end."""
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"results": {"a": {"acc,none": 1.0}}}')
    out = tmp_path / "out"
    (out / "folder").mkdir(parents=True)
    target = out / "folder" / "results_1.json"
    target.symlink_to(elsewhere) if link else os.mkfifo(target)
    (out / "other").symlink_to(tmp_path)
    (tmp_path / "results_2.json").write_text(elsewhere.read_text())
    with pytest.raises(NoResultsError):
        lm_eval.results(out, "sums")


@pytest.mark.parametrize("value", [[1.0], ["a", "b"], [0, 1]])
def test_a_row_of_a_metric_over_all_rows_is_no_error(tmp_path: Path, value: object) -> None:
    wrote_samples(tmp_path, "a", choice(0, acc=value))
    samples, (_, sample) = samples_of(tmp_path, "a", "acc")
    assert isinstance(sample, SampleRecord)
    assert (sample.value, sample.reason, sample.detail) == (None, "of-all-rows", "")
    assert (samples.tally.count, samples.tally.n_error) == (1, 0)


@pytest.mark.parametrize(("value", "known"), [(True, 1.0), (False, 0.0)])
def test_a_row_that_is_true_or_false_has_a_verdict(tmp_path: Path, value: bool, known: float) -> None:
    """As those of ifeval are."""
    line = generated(0, "none", metrics=["prompt_level_strict_acc"], prompt_level_strict_acc=value)
    _, sample = one_sample(tmp_path, "prompt_level_strict_acc", line)
    assert (sample.value, sample.parts) == (known, {"prompt_level_strict_acc": known})


def test_a_row_of_a_perplexity_has_its_bits_and_what_adds_up(tmp_path: Path) -> None:
    line = generated(0, "none", metrics=["word_perplexity", "bits_per_byte"], word_perplexity=[-8 * math.log(2), 2],
                     bits_per_byte=[-8 * math.log(2), 16])  # fmt: skip
    _, sample = one_sample(tmp_path, "bits_per_byte", line)
    assert sample.value == pytest.approx(0.5)
    assert sample.parts == pytest.approx({"logprob": -8 * math.log(2), "words": 2, "bytes": 16})


def test_the_pair_of_another_metric_is_no_perplexity(tmp_path: Path) -> None:
    """lm_eval writes (expected, chosen) for mcc and f1 of choices."""
    _, sample = one_sample(tmp_path, "mcc", choice(0, metrics=["mcc"], mcc=[1, 0]))
    assert (sample.value, sample.parts) == (None, {})


@pytest.mark.parametrize("target", ["16", pytest.param("9" * 5000, id="long")])
def test_an_expected_number_that_is_no_choice_is_itself(tmp_path: Path, target: str) -> None:
    line = choice(0, target=target, filtered_resps=[["-0.5", "True"]])
    assert one_sample(tmp_path, "acc", line)[1].expected == target


@pytest.mark.parametrize(
    "resps", [5, True, [["-inf", "True"]], [["nan", "True"]], [["x", "True"]], [[10**400, "True"]]]
)
def test_replies_without_finite_log_probabilities_are_no_choices(tmp_path: Path, resps: object) -> None:
    stage, _ = one_sample(tmp_path, "acc", choice(0, filtered_resps=resps))
    assert (stage.choice, stage.logprobs) == (None, ())


@pytest.mark.parametrize("line", [{}, {"doc_id": None}, {"doc_id": True}, {"doc_id": -1}, {"doc_id": "0"}])
def test_a_sample_without_its_row_is_an_error(tmp_path: Path, line: dict[str, Any]) -> None:
    wrote_samples(tmp_path, "a", line)
    with pytest.raises(ResultError, match="no doc_id"):
        samples_of(tmp_path, "a", "acc")


@pytest.mark.parametrize("text", [b"{", b'{"doc_id": 0}\n{"doc', b"\xff\n", pytest.param(b"[" * 100_000, id="deep")])
def test_a_torn_line_is_an_error(tmp_path: Path, text: bytes) -> None:
    written(tmp_path, text, name=f"samples_a_{TIME}.jsonl")
    with pytest.raises(ResultError, match="is not JSON"):
        samples_of(tmp_path, "a", "acc")


def test_two_files_of_samples_are_an_error(tmp_path: Path) -> None:
    wrote_samples(tmp_path, "a", choice(0))
    written(tmp_path, b"", name="samples_a_2027.jsonl")
    with pytest.raises(ResultError, match="2 files of samples of a"):
        samples_of(tmp_path, "a", "acc")


def test_what_the_store_cannot_hold_is_replaced_and_cut(tmp_path: Path) -> None:
    stage, _ = one_sample(tmp_path, "exact_match,strict", generated(0, resps=[["a\ud800b"]], doc_hash="\ud800"))
    assert stage.text == "a?b"
    assert len(files.cut("x" * 2_000_000)) == files.LONGEST


FIELDS = ["target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "target_hash", "acc",
          "bits_per_byte"]  # fmt: skip
REPLIES = st.lists(st.lists(SCALARS | st.sampled_from(["-0.5", "True"]), min_size=2, max_size=2), max_size=3)
METRICS = st.lists(st.sampled_from(["acc", "bits_per_byte"]), max_size=2)


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON | REPLIES | METRICS),
    st.sampled_from(["acc", "acc,strict", "bits_per_byte"]),
)
def test_any_sample_gives_records_that_can_be_stored(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any], headline: str
) -> None:
    folder = tmp_path_factory.mktemp("out")
    wrote_samples(folder, "a", {"doc_id": 0} | fields)
    samples, records = samples_of(folder, "a", headline)
    assert len(records) == 2 * samples.tally.count
    for record in records:
        assert record_decoder.decode(msgspec.json.encode(record)) == record
        if isinstance(record, SampleRecord):
            assert record.value is None or math.isfinite(record.value)
