"""What a recipe takes of problems, and the funnel that says why not more."""

from collections import Counter

import naive_selection as naive
from drawn_samples import SAMPLES, one
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.recipes.recipe_file import PairRules
from rwkv_data.recipes.selection.pass_rate import PassRate
from rwkv_data.recipes.selection.selector import Selector
from rwkv_data.recipes.taking import SampledProblem, rule_name, take

ALL = Selector(rule="all-correct", k=None)
SHORTEST = Selector(rule="shortest-correct", k=1, pass_rate=PassRate(0.0, 0.8))


def problem(name, *samples):
    """A problem whose samples have the reasons that their values mean."""
    found = SampledProblem(name)
    for sample, *why in samples:
        words = {None: "unjudged", 0.0: "wrong", 1.0: "right"}
        found.add(sample, why[0] if why else words.get(sample.value, "wrong"))
    return found


def stages(taken):
    return [(stage.name, stage.unit, stage.rows_in, stage.rows_out, dict(stage.dropped)) for stage in taken.funnel]


def test_the_funnel_says_why_samples_are_no_rows():
    taken = take(ALL, [
        problem("a", (one(1, 5),), (one(2, 4, 0.0),), (one(3, 9, 0.0), "no_answer"), (one(4, 9, cut_off=True),)),
        problem("b", (one(5, 5, 0.0), "timeout"), (one(6, 5, None),), (one(7, 3),)),
    ])  # fmt: skip
    assert [(row.problem, row.chosen.number, row.rejected) for row in taken.rows] == [(0, 1, None), (1, 7, None)]
    why = {"wrong": 1, "no answer": 1, "cut off": 1, "timeout of the grader": 1, "not judged": 1}
    assert stages(taken) == [
        ("right", "samples", 7, 2, why),
        ("select all-correct", "samples", 2, 2, {}),
    ]


def test_rewritten_samples_are_checked_again_and_their_originals_have_the_pass_rate():
    half, all_right = problem("half", (one(1, 5),)), problem("all right", (one(2, 5),), (one(3, 7, 0.0),))
    half.originals.extend([one(11, 5), one(12, 5, 0.0)])
    all_right.originals.extend([one(13, 5), one(14, 5)])
    taken = take(SHORTEST, [half, all_right], rewritten=True)
    assert [row.chosen.number for row in taken.rows] == [1]
    assert stages(taken)[0] == ("check again", "samples", 3, 2, {"wrong": 1})
    assert stages(taken)[1][4] == {"of problems outside the pass-rate": 1}


def test_what_is_left_of_problems_and_what_is_too_easy_is_counted_apart():
    taken = take(SHORTEST, [
        problem("a", (one(1, 5),), (one(2, 4),), (one(3, 9, 0.0),)),
        problem("easy", (one(4, 5),), (one(5, 4),)),
    ])  # fmt: skip
    assert [row.chosen.number for row in taken.rows] == [2]
    assert stages(taken)[1] == (
        "select shortest-correct k=1 pass_rate=0-0.8", "samples", 4, 1,
        {"of problems outside the pass-rate": 2, "more of the same problems": 1},
    )  # fmt: skip


def test_each_rule_of_pairs_has_its_own_stage():
    rules = PairRules(("short-long", "silc"), 3)
    taken = take(rules, [
        problem("both", (one(1, 9),), (one(2, 4),), (one(3, 5, 0.0),)),
        problem("near", (one(4, 5),), (one(5, 4),)),
        problem("none", (one(6, 5, None),)),
    ])  # fmt: skip
    assert [(row.problem, row.rule, row.chosen.number, row.rejected.number) for row in taken.rows] == [
        (0, "short-long", 2, 1), (0, "silc", 1, 3),
    ]  # fmt: skip
    gap = "the shortest and the longest correct sample differ by fewer tokens than min_gap"
    assert stages(taken) == [
        ("verdicts", "samples", 6, 5, {"not judged": 1}),
        ("pairs short-long min_gap=3", "problems", 2, 1, {gap: 1}),
        ("pairs silc", "problems", 2, 1, {"no sample is incorrect": 1}),
    ]


def test_a_rule_has_a_name_with_its_settings():
    assert rule_name(PairRules(("silc",), 5), "silc") == "silc"
    assert rule_name(SHORTEST, SHORTEST.rule) == "shortest-correct k=1 pass_rate=0-0.8"
    drawn = Selector(rule="k-correct", k=2, seed=7)
    assert rule_name(drawn, drawn.rule) == "k-correct k=2 seed=7"


@given(st.lists(SAMPLES, max_size=6), st.sampled_from([ALL, SHORTEST, Selector(rule="k-correct", k=2, seed=3)]))
def test_what_is_taken_is_what_the_rules_say_and_nothing_is_lost_from_the_funnel(drawn, selector):
    numbered = [
        [one(100 * at + s.number, s.tokens, s.value, cut_off=s.cut_off) for s in p] for at, p in enumerate(drawn)
    ]
    problems = [problem(f"p{at}", *((sample,) for sample in samples)) for at, samples in enumerate(numbered)]
    taken = take(selector, problems)
    rate = selector.pass_rate and (selector.pass_rate.low, selector.pass_rate.high)
    for at, samples in enumerate(numbered):
        expected = naive.selected(selector.rule, selector.k, selector.seed, rate, f"p{at}", samples)
        assert {row.chosen.number for row in taken.rows if row.problem == at} == expected
    right, select = taken.funnel
    assert right.rows_in == sum(map(len, numbered))
    assert right.rows_out == select.rows_in
    assert select.rows_out == len(taken.rows)


@given(st.lists(SAMPLES, max_size=6))
def test_pairs_are_what_the_rules_say(drawn):
    problems = [problem(f"p{at}", *((sample,) for sample in samples)) for at, samples in enumerate(drawn)]
    taken = take(PairRules(("short-long", "silc"), 2), problems)
    for at, samples in enumerate(drawn):
        found = {row.rule: (row.chosen.number, row.rejected.number) for row in taken.rows if row.problem == at}
        expected = {"short-long": naive.short_long(samples, 2), "silc": naive.silc(samples)}
        assert found == {rule: pair for rule, pair in expected.items() if pair is not None}
    counts = Counter(row.rule for row in taken.rows)
    assert [stage.rows_out for stage in taken.funnel[1:]] == [counts["short-long"], counts["silc"]]
