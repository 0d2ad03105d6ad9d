"""Scores that were given as numbers: which are refused, by their place, and which are one run."""

from typing import Any

import pytest

from rwkv_daemon.compare.given_scores import MOST_ROWS, GivenRun, check_name, runs_of
from rwkv_data.definition import registry
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.training.baselines import GivenScore

CATALOGUE = {name: registry.load(name) for name in ("gsm8k", "math_500", "arc_challenge", "lambada", "demo_arith")}
GSM = "free_response.lm-eval"


def given(**more: Any) -> GivenScore:
    known = {"benchmark": "gsm8k", "kind": GSM, "metric": "accuracy", "value": 0.41, "n": 1319, "place": "x.csv:2"}
    return GivenScore(**known | more)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"benchmark": "gsm9k"}, "there is no benchmark 'gsm9k' (near it: gsm8k"),
        ({"benchmark": ""}, "there is no benchmark ''"),
        ({"kind": "few"}, "gsm8k has no kind 'few'; it has "),
        ({"kind": ""}, "no kind of gsm8k is named; it has "),
        ({"metric": "bleu"}, "has no metric 'bleu'; it has accuracy, flexible"),
        ({"metric": "Accuracy"}, "has no metric 'Accuracy'"),
        ({"value": 41.0}, "accuracy is 41: shares lie between 0 and 1"),
        ({"value": 1.0000001}, "shares lie between 0 and 1"),
        ({"value": -0.1}, "accuracy is -0.1, which is no score"),
        ({"value": float("nan")}, "accuracy is nan, which is no score"),
        ({"value": float("inf")}, "accuracy is inf, which is no score"),
        ({"shots": 0}, "gsm8k was asked with 0 examples, free_response.lm-eval has 5"),
        ({"n": 0}, "n must be a number of rows, not 0"),
        ({"n": -1}, "n must be a number of rows, not -1"),
        ({"n": MOST_ROWS + 1}, "n must be a number of rows, not 10,000,001"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_that_nothing_was_stored(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(RefusedError) as told:
        runs_of([given(metric="flexible"), given(**wrong)], CATALOGUE)
    error = told.value
    assert str(error).startswith("x.csv:2: ")
    assert says in str(error)
    assert (error.code, error.exit_code, error.hint) == ("bad-score", Exit.USAGE, "Nothing was stored.")


def test_a_kind_without_examples_was_asked_with_none() -> None:
    of_demo = given(benchmark="demo_arith", kind="free_response", n=5)
    assert runs_of([of_demo], CATALOGUE)
    with pytest.raises(RefusedError, match="was asked with 3 examples, free_response has 0"):
        runs_of([given(benchmark="demo_arith", kind="free_response", shots=3)], CATALOGUE)


def test_a_metric_is_given_once() -> None:
    with pytest.raises(RefusedError, match="has accuracy twice"):
        runs_of([given(), given(value=0.5)], CATALOGUE)
    with pytest.raises(RefusedError, match="has accuracy twice"):
        runs_of([given(), given(benchmark="GSM8K", value=0.41)], CATALOGUE)


def test_two_names_of_one_metric_are_one_metric() -> None:
    with pytest.raises(RefusedError, match="twice"):
        runs_of([given(), given(metric="avg@1", value=0.9)], CATALOGUE)


def test_metrics_of_one_run_have_as_many_rows() -> None:
    with pytest.raises(RefusedError, match="n is 1,000, and 1,319 for accuracy of the same run"):
        runs_of([given(), given(metric="flexible", n=1000)], CATALOGUE)


@pytest.mark.parametrize("name", ["MATH-500", "math500_test", "Math 500"])
def test_every_usual_spelling_of_a_benchmark_is_known(name: str) -> None:
    [run] = runs_of([given(benchmark=name, n=500, kind="free_response.lm-eval-hendrycks")], CATALOGUE)
    assert run.benchmark == "math_500"


@pytest.mark.parametrize("order", [("accuracy", "acc_norm"), ("acc_norm", "accuracy")])
def test_the_headline_is_that_of_the_kind_whatever_came_first(order: tuple[str, ...]) -> None:
    kind = "multi_choice_plain.lm-eval"
    one = given(benchmark="arc_challenge", kind=kind, n=1172)
    runs = runs_of([GivenScore(**{**as_dict(one), "metric": metric}) for metric in order], CATALOGUE)
    assert [(run.benchmark, run.kind, list(run.metrics), run.n) for run in runs] == [
        ("arc_challenge", kind, list(CATALOGUE["arc_challenge"].kinds[kind].metrics), 1172)
    ]


def as_dict(score: GivenScore) -> dict[str, Any]:
    return {name: getattr(score, name) for name in score.__struct_fields__}


def test_what_is_no_share_may_be_above_one() -> None:
    [run] = runs_of(
        [given(benchmark="lambada", kind="lambada", n=5153, metric="word_perplexity", value=12.5)], CATALOGUE
    )
    assert run.metrics == {"word_perplexity": 12.5}


def test_the_same_numbers_have_one_key_in_any_order_and_all_else_another() -> None:
    run = GivenRun("gsm8k", GSM, {"accuracy": 0.41, "flexible": 0.5}, 1319)
    key = run.key("m", "csv")
    assert GivenRun("gsm8k", GSM, {"flexible": 0.5, "accuracy": 0.41}, 1319).key("m", "csv") == key
    others = {
        run.key("n", "csv"), run.key("m", "lm_eval"), GivenRun("gsm8k", GSM, {"accuracy": 0.41}, 1319).key("m", "csv"),
        GivenRun("gsm8k", GSM, dict(run.metrics), 1318).key("m", "csv"),
        GivenRun("gsm8k", "free_response", dict(run.metrics), 1319).key("m", "csv"),
        GivenRun("gsm8k", GSM, {"accuracy": 0.41, "flexible": 0.50000001}, 1319).key("m", "csv"),
    }  # fmt: skip
    assert len({key, *others}) == 7


@pytest.mark.parametrize("name", ["qwen2.5-1.5b", "g1x", "j12x", "Qwen_7B", "3b", "builtin2"])
def test_usual_names_are_taken(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", "j12", "builtin", "a/b", "a b", "a@2", "-a", ".a", "a\n", "a*", "\x1b[2J", "x" * 161]
)
def test_names_that_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="cannot be the name of a model"):
        check_name(name)
