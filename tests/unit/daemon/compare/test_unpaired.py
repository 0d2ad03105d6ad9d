"""Comparing a score with one without samples: by what of the two is compared, and what forbids it."""

from typing import Any

import msgspec
import pytest

from rwkv_daemon.compare.score_comparison import ComparedSide, choose, with_verdicts
from rwkv_daemon.compare.unpaired import comparison, is_unpaired
from rwkv_data.scoring.unpaired_tests import fisher
from rwkvctl.protocol.views import MetricView, ScoreView


def score(value: float | None = 0.5, *, given: bool = False, **more: Any) -> ScoreView:
    """A score over 200 rows; `configuration` as it was asked, `settings` those that its dispatch changed."""
    configuration = more.pop("configuration", {})
    metrics = more.pop("metrics", {"accuracy": MetricView(value=value)})
    provenance: dict[str, Any] = {"configuration": {"kind": "k", "stages": [], "repeats": 1} | configuration}
    provenance["settings"] = more.pop("settings", {})
    provenance |= {"given": True, "imported": {"program": "csv"}} if given else {"limit": more.pop("limit", None)}
    known = {"job": "j1", "model": "m", "benchmark": "gsm8k", "kind": "k", "version": 1, "primary": next(iter(metrics)),
             "metrics": metrics, "n": 200, "rows": 200, "repeats": 1, "provenance": provenance}  # fmt: skip
    return ScoreView(**known | more)


def test_two_shares_are_compared_without_any_sample() -> None:
    found = comparison(score(0.6), score(0.5, given=True, job="j2"), force=False)
    assert (found.unpaired, found.test, found.rows, found.forced, found.why) == (True, "fisher", 200, False, "")
    assert found.p == fisher(120, 200, 100, 200)
    assert found.difference is not None
    assert found.difference.value == pytest.approx(-0.1)
    assert found.noted[0].startswith("not paired: the scores of B came without samples")
    [judged] = with_verdicts([found], 0.05)
    assert (judged.verdict, judged.p_holm) == ("no difference shown" if found.p >= 0.05 else "worse", found.p)


@pytest.mark.parametrize(("a", "b", "said"), [(True, False, "A"), (False, True, "B"), (True, True, "A and B")])
def test_it_says_which_side_has_none(a: bool, b: bool, said: str) -> None:
    sides = score(given=a), score(given=b, job="j2")
    assert is_unpaired(*sides)
    assert f"the scores of {said} came" in comparison(*sides, force=False).noted[0]
    assert not is_unpaired(score(), score())


@pytest.mark.parametrize(
    ("ours", "says"),
    [
        ({"kind": "other"}, "kind: other in A, k in B"),
        ({"rows": 20, "n": 20}, "rows: 20 in A, 200 in B"),
        ({"partial": True, "limit": 200}, "A is of some rows only (limit=200)"),
        ({"configuration": {"rows": "0:200"}}, "A is of some rows only (rows=0:200)"),
        ({"configuration": {"where": "level>3"}}, "A is of some rows only (where=level>3)"),
        ({"settings": {"shots": "0", "k": "4"}}, "A was asked with other settings than its kind has (shots=0)"),
        ({"n": 150}, "A has 150 samples of 200 rows"),
    ],
)
def test_what_is_not_the_same_is_refused_and_compared_by_force(ours: dict[str, Any], says: str) -> None:
    sides = score(0.9, **ours), score(0.5, given=True)
    refused = comparison(*sides, force=False)
    assert says in refused.differs
    assert (refused.p, refused.verdict, refused.why) == (None, "not comparable", f"not the same in both: {says}")
    forced = comparison(*sides, force=True)
    assert (forced.forced, forced.test, forced.why) == (True, "fisher", "")
    assert forced.p is not None


def test_settings_that_do_not_change_what_is_asked_forbid_nothing() -> None:
    ours = score(0.9, settings={"k": "4", "seed": "7", "workers": "2"})
    assert comparison(ours, score(0.5, given=True), force=False).differs == ()


def test_several_answers_a_row_do_not_make_more_rows() -> None:
    found = comparison(score(0.6, n=800, repeats=4), score(0.5, given=True), force=False)
    assert (found.rows, found.p) == (200, fisher(120, 200, 100, 200))


def test_a_metric_that_both_have_is_compared_though_the_headlines_differ() -> None:
    ours = {"acc_norm": MetricView(value=0.6), "accuracy": MetricView(value=0.4)}
    found = comparison(score(metrics=ours), score(0.5, given=True), force=False)
    assert (found.metric, found.a, found.b, found.test) == ("accuracy", 0.4, 0.5, "fisher")
    none = comparison(
        score(metrics={"acc_norm": MetricView(value=0.6)}), score(0.5, given=True), force=True
    )  # fmt: skip
    assert (none.p, none.why) == (
        None,
        "A's headline is acc_norm and B's is accuracy: these metrics cannot be compared",
    )


def test_headlines_of_two_names_for_one_thing_are_compared() -> None:
    found = comparison(score(metrics={"avg@4": MetricView(value=0.6)}), score(0.5, given=True), force=False)
    assert (found.metric, found.a, found.b, found.test) == ("avg@4", 0.6, 0.5, "fisher")


@pytest.mark.parametrize("metric", ["word_perplexity", "bits_per_byte", "bleu"])
def test_what_is_no_share_has_no_interval_from_its_rows(metric: str) -> None:
    metrics = {metric: MetricView(value=0.5)}
    found = comparison(score(metrics=metrics), score(metrics=metrics, given=True), force=True)
    assert (found.p, found.why) == (
        None, f"{metric} is no share of right answers, so the number of rows gives it no interval",
    )  # fmt: skip


def test_a_missing_value_is_no_zero() -> None:
    found = comparison(score(None, why_null="it was stopped"), score(0.5, given=True), force=True)
    assert (found.p, found.why) == (None, "A has no value: it was stopped")


def test_our_own_whole_score_is_preferred_to_newer_partial_and_given_ones() -> None:
    def side(*scores: ScoreView) -> ComparedSide:
        rows = [(int(one.job[1:]), "g", msgspec.json.encode(one).decode()) for one in scores]
        return ComparedSide("x").add(rows)

    ours = side(score(job="j1"), score(job="j2", rows=20, n=20, partial=True, limit=20), score(job="j3", given=True))
    theirs = side(score(job="j4", given=True))
    [a], [b] = ours.scores.values(), theirs.scores.values()
    one, other = choose(a, b)
    assert (one.job, other.job) == (1, 4)
