"""Which scores may be compared, which are chosen, and which rows pair up."""

import dataclasses
from typing import Any, NamedTuple

import msgspec
import pytest

from rwkv_daemon.compare.score_comparison import ComparedSide, choose, keys_wanted, refusal, with_verdicts
from rwkv_daemon.rules.comparability import decisive_differences, flat, harmless_differences, row_numbering, rows_picked
from rwkv_daemon.samples.paired_samples import GradedRow, PairTally, flip, graded_rows, pair_up, same_rows
from rwkv_data.definition import registry
from rwkvctl.protocol.requests import CompareRequest
from rwkvctl.protocol.views import ComparisonView, MetricView, ScoreView

CONFIGURATION = {
    "kind": "free_response", "profile": "p", "profile_version": 1, "repeats": 1, "seed": 42,
    "stages": [{"name": "cot", "sampling": {"temperature": 0.3, "ban": [1, 2]}}, {"name": "answer", "sampling": {}}],
}  # fmt: skip


def score(job: int = 1, *, partial: bool = False, primary: str = "accuracy", **known: Any) -> ScoreView:
    provenance = {
        "rows_sha256": "r", "benchmark_version": 1, "grader": "g", "grader_version": "1", "grading": {},
        "configuration": CONFIGURATION, "numerics": "fp32", "seed": 42, "limit": None,
        "engines": [{"device": "cpu", "torch_version": "2"}],
    } | known  # fmt: skip
    return ScoreView(
        job=f"j{job}", model="m", benchmark="gsm8k", kind="free_response", version=job, primary=primary,
        metrics={primary: MetricView(value=0.5)}, n=2, rows=2, repeats=1, partial=partial, provenance=provenance,
    )  # fmt: skip


def changed(**stage: Any) -> dict[str, Any]:
    first, second = CONFIGURATION["stages"]  # type: ignore[misc]
    return CONFIGURATION | {"stages": [first | {"sampling": {"temperature": 0.3, "ban": [1, 2]} | stage}, second]}


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({}, []),
        ({"seed": 7}, []),
        ({"configuration": CONFIGURATION | {"seed": 7}}, []),
        ({"rows_sha256": "s"}, ["rows_sha256: r in A, s in B"]),
        ({"rows_sha256": ""}, ["rows_sha256: r in A, unknown in B"]),
        ({"benchmark_version": 2}, ["benchmark_version: 1 in A, 2 in B"]),
        ({"numerics": "fast"}, ["numerics: fp32 in A, fast in B"]),
        ({"grader_version": "2"}, ["grader_version: 1 in A, 2 in B"]),
        ({"grading": {"judge": "x/1"}}, ["judge: nothing in A, x/1 in B"]),
        ({"limit": 5}, []),
        ({"limit": 5, "partial": True}, ["limit: nothing in A, 5 in B"]),
        ({"configuration": CONFIGURATION | {"profile": "q"}}, ["profile: p in A, q in B"]),
        ({"configuration": CONFIGURATION | {"repeats": 4}}, ["repeats: 1 in A, 4 in B"]),
        ({"configuration": CONFIGURATION | {"shots": {"count": 5}}}, ["shots.count: nothing in A, 5 in B"]),
        ({"configuration": changed(temperature=1.0)}, ["stages.cot.sampling.temperature: 0.3 in A, 1.0 in B"]),
        ({"configuration": changed(ban=[1])}, ["stages.cot.sampling.ban: [1, 2] in A, [1] in B"]),
    ],
)
def test_every_field_that_forbids_a_comparison_is_named(other: dict[str, Any], told: list[str]) -> None:
    partial = bool(other.get("partial"))
    known = {name: value for name, value in other.items() if name != "partial"}
    assert decisive_differences(score(), score(2, partial=partial, **known)) == told


def test_what_does_not_matter_is_noted() -> None:
    other = score(2, seed=7, engines=[{"device": "cuda", "torch_version": "2"}])
    assert harmless_differences(score(), other) == ["seed: 42 in A, 7 in B", "engine device: cpu in A, cuda in B"]


def test_that_only_picked_rows_are_compared_is_noted() -> None:
    """Else a gate that passes would seem to have passed on the whole set."""
    picked = score(configuration=CONFIGURATION | {"where": "level>=4", "rows": "0:9"})
    assert rows_picked(picked, picked) == [
        "gsm8k: rows picked by rows=0:9, on both sides",
        "gsm8k: rows picked by where=level>=4, on both sides",
    ]
    assert rows_picked(picked, score()) == rows_picked(score(), score()) == []


def test_rows_that_nobody_knows_are_never_the_same() -> None:
    unknown = score(rows_sha256="")
    assert decisive_differences(unknown, unknown) == ["rows_sha256: not known in A, unknown in B"]


def test_flat_names() -> None:
    assert flat({"seed": 1, "stages": [{"name": "a", "x": {"y": 1}}, {"z": []}]}) == {
        "stages.a.x.y": 1, "stages.1.z": [],
    }  # fmt: skip
    assert flat(None) == {}


def named(*views: ScoreView) -> list[Any]:
    rows = [(int(view.job[1:]), "k", msgspec.json.encode(view).decode()) for view in views]
    [found] = ComparedSide("m").add(rows).scores.values()
    return found


def test_the_newest_comparable_pair_is_chosen() -> None:
    a = named(score(1), score(5, numerics="fast"), score(9, imported={}), score(7, partial=True))
    b = named(score(2), score(3))
    assert [one.job for one in a] == [5, 1, 7, 9], "ours, then whole ones, then the newest"
    assert [one.job for one in choose(a, b)] == [1, 3]
    assert [one.job for one in choose(a, named(score(4, numerics="exact")))] == [5, 4], "or the best ranked of each"


def test_a_score_without_samples_stands_for_no_side_that_has_others() -> None:
    given = score(9, imported={}, given=True)
    assert [one.job for one in choose(named(given, score(1, numerics="exact")), named(score(2)))] == [1, 2]
    assert [one.job for one in choose(named(given), named(score(2)))] == [9, 2]


def test_scores_that_say_nothing_are_not_compared() -> None:
    null = msgspec.structs.replace(score(), metrics={"accuracy": MetricView(value=None)}, why_null="3 errors")
    assert refusal(score(), null, [], force=True) == "B has no value: 3 errors"
    assert refusal(score(primary="avg@4"), score(primary="pass@8"), [], force=True).endswith(
        "these metrics cannot be compared"
    )
    assert refusal(score(primary="avg@4"), score(primary="avg@8"), ["repeats"], force=True) == ""
    assert refusal(score(), score(2), ["limit: 1 in A, 2 in B"], force=False).startswith("not the same in both: limit")


class Side(NamedTuple):
    """A score with its rows."""

    view: ScoreView
    rows: dict[int, GradedRow]


def side(view: ScoreView, values: dict[int, list[float | None]], expected: str = "5", **parts: float) -> Side:
    rows = [
        {"row": row, "repeat": repeat, "value": value, "number": 100 * row + repeat, "expected": f"{expected}{row}",
         "extracted": f"a{repeat}", "reason": "right", "parts": msgspec.json.encode(parts).decode()}
        for row, own in values.items() for repeat, value in enumerate(own)
    ]  # fmt: skip
    return Side(view, graded_rows(rows))


def paired(a: Side, b: Side, *, force: bool = False, flips: int = 10) -> ComparisonView:
    view = ComparisonView(benchmark="b", kind="k", verdict="not comparable", metric=a.view.primary)
    tally = PairTally(a.view, b.view)
    tally.take(a.rows, b.rows)
    view, rows = pair_up(view, tally, force=force, flips=flips)
    flips_of = (flip(one.row, a.rows[one.row], b.rows[one.row], (one.a, one.b)) for one in rows)
    return msgspec.structs.replace(view, flips=tuple(flips_of))


def test_rows_without_a_partner_need_force_and_are_counted() -> None:
    a, b = side(score(), {0: [1], 1: [0], 2: [1]}), side(score(2), {1: [1], 2: [None], 3: [0]})
    assert paired(a, b).why == "3 rows are in one of them only, or have no verdict in both"
    found = paired(a, b, force=True)
    assert (found.rows, found.left_out, found.only_b, found.forced) == (1, 3, 1, True)
    assert paired(a, side(score(2), {7: [1]}), force=True).why == "no row is in both"
    assert paired(a, Side(score(2), {}), force=True).why == "B came without samples"


def test_row_numbers_must_mean_the_same_questions() -> None:
    rows: dict[int, list[float | None]] = {row: [1.0] for row in range(300)}
    ours, theirs = side(score(), rows), side(score(2, rows_sha256="other"), rows, expected="9")
    assert paired(ours, theirs, force=True).why == (
        "the row numbers mean other questions: 300 of 300 reference answers differ"
    )
    two_differ = side(score(2, rows_sha256="other"), rows)
    for row in (3, 4):
        two_differ.rows[row] = dataclasses.replace(two_differ.rows[row], expected="x")
    found = paired(ours, two_differ, force=True)
    assert (found.rows, found.left_out) == (298, 2)


def test_flips_show_the_repeat_that_differs_and_where_to_look() -> None:
    a, b = side(score(), {0: [1, 1], 1: [1, 1]}), side(score(2), {0: [1, 0], 1: [1, 1]})
    [flip] = paired(a, b).flips
    assert (flip.row, flip.value_a, flip.value_b, flip.sample_a, flip.after) == (0, 1.0, 0.5, 1, 0)
    assert paired(a, b, flips=0).flips == ()


def test_a_smaller_perplexity_is_better() -> None:
    rows: dict[int, list[float | None]] = {row: [0.0] for row in range(30)}
    a = side(score(primary="bits_per_byte"), rows, nats=50.0, bytes=100.0)
    b = side(score(2, primary="bits_per_byte"), rows, nats=40.0, bytes=100.0)
    found = paired(a, b)
    assert found.lower_is_better
    assert found.difference
    assert found.difference.value == pytest.approx(-0.1 / 0.6931471805599453)
    [judged] = with_verdicts([found], 0.05)
    assert (judged.test, judged.verdict) == ("bootstrap", "better")


def test_p_values_are_adjusted_over_what_was_compared() -> None:
    views = [
        ComparisonView(benchmark=name, kind="k", verdict="not comparable", p=p, difference=MetricView(value=-0.1))
        for name, p in (("a", 0.01), ("b", 0.04), ("c", None))
    ]
    found = with_verdicts(views, 0.05)
    assert [one.p_holm for one in found] == [0.02, 0.04, None]
    assert [one.verdict for one in found] == ["worse", "worse", "not comparable"]


def picking(**settings: Any) -> dict[str, Any]:
    return {"configuration": CONFIGURATION | settings}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({}, {}, True),
        ({"rows": "0:100"}, {}, True),
        ({"rows": "0:100"}, {"rows": "0:20"}, True),
        ({"rows": "10:100"}, {"rows": "10:"}, True),
        ({"rows": "10:100"}, {}, False),
        ({"where": "level=5"}, {}, False),
        ({"where": "level=5", "rows": "0:9"}, {"where": "level=5"}, True),
        ({"share": 0.5}, {}, False),
        ({"share": 0.5, "rows": "0:9"}, {"share": 0.5, "rows": "0:8"}, False),
        ({"part": "report"}, {"part": "report"}, True),
        ({"window": {"release": "v5"}}, {}, False),
    ],
)
def test_runs_number_the_rows_of_a_set_alike_or_not(one: Any, other: Any, alike: bool) -> None:
    assert (row_numbering(CONFIGURATION | one) == row_numbering(CONFIGURATION | other)) is alike
    assert same_rows(score(**picking(**one)), score(2, **picking(**other))) is alike


def test_picked_rows_forbid_a_comparison_and_are_named() -> None:
    told = decisive_differences(score(**picking(where="level=5")), score(2, **picking(rows="0:9")))
    assert told == ["where: level=5 in A, nothing in B", "rows: nothing in A, 0:9 in B"]


def test_other_rows_of_one_set_are_not_paired_by_their_numbers() -> None:
    rows: dict[int, list[float | None]] = {row: [1.0] for row in range(30)}
    for picks, differ in (({"where": "level=5"}, "where"), ({"order": "level", "rows": "3:"}, "rows and order")):
        ours, theirs = side(score(**picking(**picks)), rows), side(score(2), rows)
        why = paired(ours, theirs, force=True).why
        assert why.startswith(f"their row numbers may mean other rows, as {differ} differ: only runs of"), (
            "although each of the expected answers is the same"
        )
        assert paired(ours, side(score(2, **picking(**picks)), rows, expected="9")).rows == 30


def of_set(name: str, *, training: bool, job: int = 0) -> ComparedSide:
    view = msgspec.structs.replace(score(), benchmark=name, training=training)
    found = ComparedSide("m", job=job).add([(1, "k", msgspec.json.encode(view).decode())])
    return found.add([(2, "k", msgspec.json.encode(score()).decode())]) if not job else found


@pytest.mark.parametrize(
    ("benchmarks", "job", "keys"),
    [
        ((), 0, ["gsm8k"]),
        (("numina_math",), 0, ["numina_math"]),
        (("gsm8k", "numina_math"), 0, ["gsm8k", "numina_math"]),
        ((), 1, ["numina_math"]),
    ],
)
def test_a_training_set_is_compared_where_it_or_its_job_is_named(benchmarks: Any, job: int, keys: list[str]) -> None:
    a, b = of_set("numina_math", training=True, job=job), of_set("numina_math", training=True)
    found = keys_wanted(CompareRequest(a="x", b="y", benchmarks=benchmarks), {}, a, b)
    assert [name for name, _ in found] == keys


def test_a_set_that_has_become_a_training_set_is_not_compared_unnamed_either() -> None:
    a, b = of_set("gsm8k_train", training=False), of_set("gsm8k_train", training=False)
    catalogue = {"gsm8k_train": registry.load("gsm8k_train")}
    assert [name for name, _ in keys_wanted(CompareRequest(a="x", b="y"), catalogue, a, b)] == ["gsm8k"]
