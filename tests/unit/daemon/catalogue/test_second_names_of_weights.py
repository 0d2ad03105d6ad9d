"""Scores under every name of their weights: each name once, and no score in place of one of its own."""

from collections.abc import Sequence
from typing import Any

from rwkv_daemon.catalogue.second_names import MeasuredScore, spread, weights_called
from rwkv_daemon.store.queries.comparing import ScoredWork
from rwkvctl.protocol.views import ScoreView

NAMES = {"w": ["a", "b", "c"], "v": ["d"], "": []}


def score(job: int, model: str, weights: str = "w", **more: Any) -> MeasuredScore:
    values: dict[str, Any] = {"benchmark": "gsm8k", "kind": "cot", "version": 1, "primary": "accuracy", "metrics": {}}
    view = ScoreView(job=f"j{job}", model=model, n=1, rows=1, repeats=1, **values | more)
    return MeasuredScore(view, weights)


def told(
    found: list[MeasuredScore], more: Sequence[MeasuredScore] = (), *, every: bool = False
) -> list[tuple[str, str, str]]:
    """(model, job, measured as) of what a page with these scores shows, where `more` are on other pages."""
    work = [
        ScoredWork(int(one.score.job[1:]), one.score.model, one.score.benchmark, one.score.kind, one.weights_sha256)
        for one in (*found, *more)
    ]
    return [(one.model, one.job, one.measured_as) for one in spread(found, NAMES, work, every=every)]


def test_each_name_has_the_newest_score_of_its_weights() -> None:
    assert told([score(3, "a"), score(2, "a", "v")]) == [
        ("a", "j3", ""), ("b", "j3", "a"), ("c", "j3", "a"), ("a", "j2", ""), ("d", "j2", "a"),
    ]  # fmt: skip
    two = [score(3, "a"), score(2, "b")]
    assert told(two) == [("a", "j3", ""), ("c", "j3", "a"), ("b", "j2", "")]
    assert told(two, every=True) == [("a", "j3", ""), ("c", "j3", "a"), ("b", "j2", ""), ("c", "j2", "b")]


def test_what_is_on_other_pages_counts() -> None:
    assert told([score(3, "a")], [score(2, "b")]) == [("a", "j3", ""), ("c", "j3", "a")]
    assert told([score(2, "b")], [score(3, "a")]) == [("b", "j2", "")], "c had the newer one before"
    other = [score(2, "b"), score(1, "c", kind="plain")]
    assert told([score(3, "a", kind="plain")], other) == [("a", "j3", ""), ("b", "j3", "a")]


def test_scores_of_unknown_weights_have_their_own_name_alone() -> None:
    assert told([score(1, "imported", "")]) == [("imported", "j1", "")]
    assert weights_called("a", {"w": ["a"], "u": ["a", "b"]}) == ("w", "u")
    assert weights_called("", {"w": ["a"]}) == ()
