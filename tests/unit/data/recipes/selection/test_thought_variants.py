"""Shorter variants and their pairs: examples, properties, and the rules once more, naively."""

from collections import Counter

import naive_selection as naive
import pytest
from drawn_samples import SAMPLES, one
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.recipes.recipe_file import PairRules
from rwkv_data.recipes.selection.preference_pair import WHY_NO_PAIR, PreferencePair
from rwkv_data.recipes.selection.thought_pair import ShortenedProblem, thought_pair
from rwkv_data.recipes.selection.thought_variants import VARIANT_RULES, first_undecided, kept_thoughts
from rwkv_data.recipes.taking import SampledProblem, take

SOLUTION = "s"


def naive_variants(thoughts, truths):
    """The variants as lists of texts, by one who knows of each thought whether it is right."""
    places = [at for at in range(len(thoughts)) if truths[at]]
    found = {}
    if places:
        i = places[0]
        found["fcs"], found["fcs+1"] = [], []
        for at in range(len(thoughts)):
            if at <= i:
                found["fcs"].append(thoughts[at])
            if at <= i + 1:
                found["fcs+1"].append(thoughts[at])
    if len(places) >= 2:
        j = places[1]
        found["fcs+reflection"] = [thought for at, thought in enumerate(thoughts) if at <= j]
    return {rule: [*kept, SOLUTION] for rule, kept in found.items()}


def revealed(truths):
    """The verdicts, each told when it is asked for, and the places in the order in which they were asked for."""
    verdicts, asked = [None] * len(truths), []
    while (index := first_undecided(verdicts)) is not None:
        assert verdicts[index] is None
        asked.append(index)
        verdicts[index] = truths[index]
    return verdicts, asked


THOUGHTS = st.lists(st.tuples(st.text(max_size=3), st.booleans()), max_size=12)


@pytest.mark.parametrize(
    ("truths", "kept", "asked"),
    [
        ("", {}, 0),
        ("-", {}, 1),
        ("----", {}, 4),
        ("+", {"fcs": 1, "fcs+1": 1}, 1),
        ("-+", {"fcs": 2, "fcs+1": 2}, 2),
        ("-+-", {"fcs": 2, "fcs+1": 3}, 3),
        ("++", {"fcs": 1, "fcs+1": 2, "fcs+reflection": 2}, 2),
        ("+--+-+", {"fcs": 1, "fcs+1": 2, "fcs+reflection": 4}, 4),
        ("-++++", {"fcs": 2, "fcs+1": 3, "fcs+reflection": 3}, 3),
    ],
)
def test_how_many_thoughts_a_variant_keeps(truths, kept, asked):
    verdicts, places = revealed([truth == "+" for truth in truths])
    assert kept_thoughts(verdicts) == kept
    assert places == list(range(asked))


@given(THOUGHTS)
def test_variants_are_what_the_rules_say_though_verdicts_are_only_asked_for_where_they_matter(drawn):
    thoughts, truths = [text for text, _ in drawn], [truth for _, truth in drawn]
    verdicts, asked = revealed(truths)
    kept = kept_thoughts(verdicts)
    assert {rule: [*thoughts[:most], SOLUTION] for rule, most in kept.items()} == naive_variants(thoughts, truths)
    assert list(kept) == list(VARIANT_RULES[: len(kept)])
    assert list(asked) == list(range(len(asked)))
    right = [at for at, truth in enumerate(truths) if truth]
    assert len(asked) == (right[1] + 1 if len(right) > 1 else len(truths))


@given(THOUGHTS, st.data())
def test_no_verdict_is_asked_for_behind_the_second_right_one_and_none_there_changes_a_variant(drawn, data):
    truths = [truth for _, truth in drawn]
    verdicts, asked = revealed(truths)
    behind = len(truths) - len(asked)
    others = data.draw(st.lists(st.sampled_from([None, True, False]), min_size=behind, max_size=behind))
    told = [*verdicts[: len(asked)], *others]
    assert first_undecided(told) is None
    assert kept_thoughts(told) == kept_thoughts(verdicts) == kept_thoughts(truths)


@given(THOUGHTS.filter(len), st.data())
def test_a_variant_is_a_beginning_and_those_with_more_thoughts_are_longer(drawn, data):
    kept = kept_thoughts([truth for _, truth in drawn])
    assert list(kept.values()) == sorted(kept.values())
    assert all(1 <= most <= len(drawn) for most in kept.values())
    asked = data.draw(st.integers(0, len(drawn) - 1))
    verdicts = [truth if at < asked else None for at, (_, truth) in enumerate(drawn)]
    if sum(map(bool, verdicts)) < 2:
        assert first_undecided(verdicts) == asked


# the pair of a problem


def shortened(samples, **variants):
    """A problem whose variants are those given, and split in vain else."""
    named = {"fcs": "fcs", "plus": "fcs+1", "reflection": "fcs+reflection"}
    return ShortenedProblem(
        samples, dict.fromkeys(VARIANT_RULES, "not-split") | {named[each]: found for each, found in variants.items()}
    )


LONG, SHORT = one(1, 9), one(2, 5)


def test_a_pair_is_the_variant_against_the_longest_and_names_the_shortest():
    samples = [LONG, SHORT, one(3, 7), one(4, 30, 0.0), one(5, 1, 0.5), one(6, 40, None), one(7, 2, cut_off=True)]
    variants = {rule: one(number, 5 - number) for number, rule in enumerate(VARIANT_RULES)}
    for rule in VARIANT_RULES:
        expected = PreferencePair(rule, variants[rule], LONG, SHORT)
        assert thought_pair(rule, ShortenedProblem(samples, variants)) == expected


def test_the_longest_may_be_cut_off_and_is_the_last_of_its_length():
    cut = one(3, 9, cut_off=True)
    pair = thought_pair("fcs", shortened([cut, LONG, SHORT], fcs=one(0, 3)))
    assert (pair.chosen, pair.rejected, pair.shortened) == (one(0, 3), cut, SHORT)


@pytest.mark.parametrize(
    ("samples", "variant", "expected"),
    [
        ([], one(0, 3), "none-correct"),
        ([one(1, 9, 0.0), one(2, 5, None)], one(0, 3), "none-correct"),
        ([LONG, one(2, 5, 0.9)], one(0, 3), "one-correct"),
        ([one(1, 9, cut_off=True), one(2, 5, cut_off=True)], one(0, 3), "all-cut-off"),
        ([LONG, one(2, 9)], one(0, 3), "none-shorter"),
        ([LONG, one(2, 5, cut_off=True)], one(0, 3), "none-shorter"),
        ([LONG, LONG], "none-true", "none-shorter"),  # the samples come before the variant
        ([LONG, SHORT], "not-split", "not-split"),
        ([LONG, SHORT], "none-true", "none-true"),
        ([LONG, SHORT], "one-true", "one-true"),
        ([LONG, SHORT], one(0, 3, 0.0), "variant-not-right"),
        ([LONG, SHORT], one(0, 3, 0.9), "variant-not-right"),
        ([LONG, SHORT], one(0, 3, None), "variant-not-right"),
        ([LONG, SHORT], one(0, 3, cut_off=True), "variant-not-right"),
        ([LONG, SHORT], one(0, 9, 0.0), "variant-not-right"),
        ([LONG, SHORT], one(0, 9), "none-shorter"),
        ([LONG, SHORT], one(0, 10), "none-shorter"),
        ([LONG, SHORT], one(0, 8), (0, 1)),
    ],
)
def test_why_there_is_no_pair(samples, variant, expected):
    found = thought_pair("fcs", shortened(samples, fcs=variant))
    assert (found if isinstance(found, str) else (found.chosen.number, found.rejected.number)) == expected
    assert thought_pair("fcs+1", shortened(samples, plus=variant)) == (
        found if isinstance(found, str) else PreferencePair("fcs+1", found.chosen, found.rejected, found.shortened)
    )


def naive_ends(samples):
    """Both samples a problem is about, or why there are none."""
    correct, chooseable = naive.correct(samples), naive.chooseable(samples)
    if len(correct) == 0:
        return "none-correct"
    if len(correct) == 1:
        return "one-correct"
    if len(chooseable) == 0:
        return "all-cut-off"
    shortest, longest = chooseable[0], correct[0]
    for sample in chooseable:
        shortest = sample if naive.before(sample, shortest) else shortest
    for sample in correct:
        longest = sample if naive.before(longest, sample) else longest
    return (shortest, longest) if longest.tokens > shortest.tokens else "none-shorter"


def naive_pair(rule, problem):
    """(chosen, rejected, shortened) of one job, or why there is none."""
    ends = naive_ends(problem.samples)
    if isinstance(ends, str):
        return ends
    variant = problem.variants[rule]
    if isinstance(variant, str):
        return variant
    if variant.value is None or variant.value < 1 or variant.cut_off:
        return "variant-not-right"
    shortest, longest = ends
    return "none-shorter" if longest.tokens <= variant.tokens else (variant, longest, shortest)


_VARIANT = st.sampled_from(["not-split", "none-true", "one-true"]) | st.builds(
    one, st.integers(0, 2), st.integers(1, 6), st.sampled_from([None, 0.0, 0.5, 1.0, 1.0, 1.0]),
    cut_off=st.sampled_from([False, False, False, True]),
)  # fmt: skip
VARIANTS = st.fixed_dictionaries(dict.fromkeys(VARIANT_RULES, _VARIANT))


def both(found):
    return (found.chosen, found.rejected, found.shortened) if isinstance(found, PreferencePair) else found


@given(SAMPLES, VARIANTS, st.randoms(use_true_random=False))
def test_a_pair_is_what_the_rules_say_in_whatever_order_the_samples_come(samples, variants, random):
    shuffled = random.sample(samples, len(samples))
    for rule in VARIANT_RULES:
        found = thought_pair(rule, ShortenedProblem(samples, variants))
        assert both(found) == naive_pair(rule, ShortenedProblem(samples, variants))
        assert found == thought_pair(rule, ShortenedProblem(shuffled, variants))
        if isinstance(found, str):
            assert found in WHY_NO_PAIR
            continue
        assert found.rule == rule
        assert found.chosen is variants[rule]
        assert found.chosen.value == 1
        assert not found.chosen.cut_off
        assert found.chosen.tokens < found.rejected.tokens
        assert found.shortened.tokens < found.rejected.tokens


# what a recipe takes


ALL = PairRules(VARIANT_RULES, 1)


def problem(name, *jobs):
    """A problem with the samples of all its jobs, of which each is of its own numbers."""
    found = SampledProblem(name, shortened=list(jobs))
    for job in jobs:
        for sample in job.samples:
            found.add(sample, "unjudged" if sample.value is None else "right" if sample.value >= 1 else "wrong")
    return found


def rows(taken):
    return [(row.problem, row.rule, row.chosen, row.rejected, row.shortened) for row in taken.rows]


def stages(taken):
    return [(stage.name, stage.unit, stage.rows_in, stage.rows_out, dict(stage.dropped)) for stage in taken.funnel]


def test_each_rule_gives_its_row_of_a_problem_and_says_of_the_others_why_not():
    split = shortened([LONG, SHORT], fcs=one(0, 3), plus=one(1, 9), reflection="one-true")
    wrong = shortened([one(3, 9), one(4, 5)], fcs=one(0, 3, 0.0), plus=one(1, 4), reflection=one(2, 5))
    ungraded = shortened([one(5, 9, None), one(6, 5, None)], fcs=one(0, 3))
    alone = shortened([one(7, 9), one(8, 5, 0.0)], fcs=one(0, 3))
    taken = take(ALL, [problem("a", split), problem("b", wrong), problem("c", ungraded), problem("d", alone)])
    assert rows(taken) == [
        (0, "fcs", one(0, 3), LONG, SHORT),
        (1, "fcs+1", one(1, 4), one(3, 9), one(4, 5)),
        (1, "fcs+reflection", one(2, 5), one(3, 9), one(4, 5)),
    ]
    only = "only one sample is correct"
    assert stages(taken) == [
        ("verdicts", "samples", 8, 6, {"not judged": 2}),
        ("pairs fcs", "problems", 3, 1, {"the variant was not right when it was graded": 1, only: 1}),
        ("pairs fcs+1", "problems", 3, 1,
         {"no correct sample that may be chosen is shorter than the longest correct one": 1, only: 1}),
        ("pairs fcs+reflection", "problems", 3, 1,
         {"only one thought of the shortest correct sample states the right answer": 1, only: 1}),
    ]  # fmt: skip


def test_beside_short_long_the_min_gap_is_of_that_rule_alone():
    found = problem("a", shortened([LONG, SHORT], fcs=one(0, 8)))
    taken = take(PairRules(("short-long", "fcs"), 5), [found])
    assert [(row.rule, row.chosen.number, row.shortened) for row in taken.rows] == [("fcs", 0, SHORT)]
    assert [stage.name for stage in taken.funnel] == ["verdicts", "pairs short-long min_gap=5", "pairs fcs"]
    assert take(PairRules(("short-long",), 1), [found]).rows[0].shortened is None


def test_of_two_jobs_the_first_that_gives_a_pair_is_taken():
    first = shortened([one(1, 9), one(2, 5)], fcs=one(0, 3), plus="none-true")
    second = shortened([one(3, 8), one(4, 2)], fcs=one(1, 1), plus=one(1, 2), reflection=one(2, 8))
    assert rows(take(ALL, [problem("a", first, second)])) == [
        (0, "fcs", one(0, 3), one(1, 9), one(2, 5)),
        (0, "fcs+1", one(1, 2), one(3, 8), one(4, 2)),
    ]
    assert rows(take(ALL, [problem("a", second, first)])) == [
        (0, "fcs", one(1, 1), one(3, 8), one(4, 2)),
        (0, "fcs+1", one(1, 2), one(3, 8), one(4, 2)),
    ]


def test_where_no_job_gives_a_pair_the_first_that_was_split_says_why():
    first = shortened([one(1, 9), one(2, 5)], fcs="none-true")
    second = shortened([one(3, 8), one(4, 2)], fcs=one(0, 1, 0.0))
    same = shortened([one(5, 6), one(6, 6)], fcs=one(0, 3))
    for jobs, why in (((first, second), "none-true"), ((second, first), "variant-not-right"),
                      ((same, second, first), "variant-not-right")):  # fmt: skip
        taken = take(PairRules(("fcs",), 1), [problem("a", *jobs)])
        assert stages(taken)[1] == ("pairs fcs", "problems", 1, 0, {WHY_NO_PAIR[why]: 1})


def test_the_shortest_and_the_longest_of_two_jobs_are_no_pair():
    longer, shorter = shortened([one(1, 9)], fcs=one(0, 3)), shortened([one(2, 5)], fcs=one(0, 3))
    none = SampledProblem("none split", [one(1, 9), one(2, 5)], ["right", "right"])
    for found in (problem("a", longer, shorter), none):
        taken = take(PairRules(("fcs", "short-long"), 1), [found])
        assert [row.rule for row in taken.rows] == ["short-long"]
        two = "the shortest and the longest correct sample are of different jobs"
        assert stages(taken)[1] == ("pairs fcs", "problems", 1, 0, {two: 1})


def naive_taken(rule, found):
    """What a rule takes of a problem, or why nothing."""
    of_all = naive_ends(found.samples)
    if isinstance(of_all, str):
        return of_all
    why = "of-two-jobs"
    for job in found.shortened:
        if isinstance(naive_ends(job.samples), str):
            continue
        pair = naive_pair(rule, job)
        if not isinstance(pair, str):
            return pair
        if why == "of-two-jobs":
            why = pair
    return why


@given(st.lists(st.lists(st.tuples(SAMPLES, VARIANTS), max_size=2), max_size=4))
def test_what_is_taken_is_what_the_rules_say_and_every_problem_is_counted_once_a_rule(drawn):
    def of_job(job, samples):
        return [one(100 * job + each.number, each.tokens, each.value, cut_off=each.cut_off) for each in samples]

    problems = [
        problem(f"p{at}", *(ShortenedProblem(of_job(job, of), variants) for job, (of, variants) in enumerate(jobs)))
        for at, jobs in enumerate(drawn)
    ]
    taken = take(ALL, problems)
    judged = [(at, each) for at, each in enumerate(problems) if any(s.value is not None for s in each.samples)]
    expected = [(at, rule, naive_taken(rule, each)) for at, each in judged for rule in VARIANT_RULES]
    assert rows(taken) == [(at, rule, *found) for at, rule, found in expected if not isinstance(found, str)]
    for rule, stage in zip(VARIANT_RULES, taken.funnel[1:], strict=True):
        why = Counter(WHY_NO_PAIR[found] for _, name, found in expected if name == rule and isinstance(found, str))
        assert (stage.name, stage.unit, stage.rows_in) == (f"pairs {rule}", "problems", len(judged))
        assert stage.dropped == why
        assert stage.rows_out == sum(row.rule == rule for row in taken.rows)
