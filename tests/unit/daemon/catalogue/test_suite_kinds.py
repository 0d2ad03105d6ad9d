"""What a suite selects: its kinds, what the flags beside it leave out, and on which models it searches for settings."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.catalogue.suite_kinds import kinds_of, searched_models
from rwkv_daemon.rules.plan import SEARCH, Grid, KindFact, ModelFact, OfferedKind, SelectionError, select_kinds
from rwkv_data.definition.suites import Suite, SuiteMember, SuiteSearch
from rwkv_weights.local import file_names
from rwkvctl.protocol.requests import Selection

SKILLS, EVAL = "rwkv-skills-v1", "lm-eval"


def offer(benchmark: str, kind: str, profile: str = SKILLS, domain: str = "free_response", **more: Any) -> OfferedKind:
    return OfferedKind(benchmark=benchmark, kind=kind, domain=domain, profile=profile, **more)


def searching(benchmark: str, kind: str) -> OfferedKind:
    return offer(benchmark, f"param_search_{kind}", domain=SEARCH, default=False)


OFFERS = (
    offer("maths", "free", instead="free_judge"),
    offer("maths", "free_judge"),
    offer("maths", "free.lm-eval", EVAL, default=False),
    searching("maths", "free"),
    searching("maths", "free_judge"),
    offer("sums", "free"),
    searching("sums", "free"),
    offer("choice", "plain", domain="multi_choice"),
    offer("choice", "cot", domain="multi_choice", default=False),
    offer("choice", "plain.lm-eval", EVAL, domain="multi_choice", default=False),
    offer("demo", "free", builtin=True),
    offer("drill", "free", training=True),
)
USUAL = {("maths", "free_judge"), ("sums", "free"), ("choice", "plain")}
SEARCHING = SuiteSearch(models=("*",))


def of(*members: str, **more: Any) -> set[tuple[str, str]]:
    return kinds_of(suite_of(*members, **more), Selection(), OFFERS)


def suite_of(*members: str, **more: Any) -> Suite:
    named = tuple(SuiteMember(*member.split(".", 1)) for member in members)
    return Suite(name="nightly", members=named, **more)


# -- the kinds of a suite


def test_a_benchmark_means_the_kinds_that_a_dispatch_of_it_means() -> None:
    assert of("choice") == {("choice", "plain")}
    assert of("maths", "sums") == {("maths", "free_judge"), ("sums", "free")}


def test_kinds_and_profiles_narrow_benchmarks_as_the_flags_do() -> None:
    assert of("maths", "choice", kinds=("plain", "free")) == {("maths", "free"), ("choice", "plain")}
    assert of("maths", "choice", profiles=(EVAL,)) == {("maths", "free.lm-eval"), ("choice", "plain.lm-eval")}
    assert of("choice", kinds=("cot", "plain")) == {("choice", "cot"), ("choice", "plain")}
    assert of("choice", kinds=("cot",), profiles=(EVAL,)) == set()


def test_an_exact_kind_is_meant_whatever_else_the_suite_says() -> None:
    assert of("choice.plain.lm-eval") == {("choice", "plain.lm-eval")}
    assert of("choice.cot", "maths", profiles=(EVAL,)) == {("choice", "cot"), ("maths", "free.lm-eval")}
    assert of("maths.free", "maths") == {("maths", "free"), ("maths", "free_judge")}


def test_without_members_a_suite_means_all_that_is_usual() -> None:
    assert of() == USUAL
    assert of(profiles=(EVAL,)) == {("maths", "free.lm-eval"), ("choice", "plain.lm-eval")}


def test_built_in_benchmarks_and_training_sets_are_measured_if_the_suite_names_them() -> None:
    assert of("demo", "drill") == {("demo", "free"), ("drill", "free")}
    assert chosen(suite_of("demo", "drill")) == {("demo", "free"), ("drill", "free")}


def test_what_is_searched_for_are_the_settings_of_what_is_measured() -> None:
    assert of("maths", search=SEARCHING) == {("maths", "free_judge"), ("maths", "param_search_free_judge")}
    assert of("maths.free", search=SEARCHING) == {("maths", "free"), ("maths", "param_search_free")}
    assert of("choice", search=SEARCHING) == {("choice", "plain")}, "it has no search"
    everything = USUAL | {("maths", "param_search_free_judge"), ("sums", "param_search_free")}
    assert of(search=SEARCHING) == everything


def test_a_search_stays_on_the_benchmarks_that_it_names() -> None:
    only = replace(SEARCHING, benchmarks=("sums",))
    assert of("maths", "sums", search=only) == of("maths", "sums") | {("sums", "param_search_free")}


@pytest.mark.parametrize("flags", [{"skip_jobs": ("free_judge",)}, {"only_jobs": ("free",)}])
def test_the_kind_without_a_judge_is_measured_if_the_flags_ask_for_it(flags: dict[str, tuple[str, ...]]) -> None:
    assert chosen(suite_of("maths", "sums"), **flags) == {("maths", "free"), ("sums", "free")}


@pytest.mark.parametrize("gone", ["gone", "gone.free", "choice.gone"])
def test_a_member_that_is_gone_is_named(gone: str) -> None:
    with pytest.raises(SelectionError, match=rf"--suite nightly: there is no {gone.removesuffix('.free')}.* any more"):
        of("maths", gone)


# -- what a selection leaves out of a suite


def chosen(suite: Suite, **flags: Any) -> set[tuple[str, str]]:
    found = select_kinds(Selection(**flags), OFFERS, kinds_of(suite, Selection(**flags), OFFERS))
    return {(one.benchmark, one.kind) for one in found}


WHOLE = suite_of("maths", "sums", "choice", "choice.plain.lm-eval", "demo", search=SEARCHING)
SEARCHES = {("maths", "param_search_free_judge"), ("sums", "param_search_free")}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, USUAL | {("choice", "plain.lm-eval"), ("demo", "free")} | SEARCHES),
        ({"only_datasets": ("sums", "choice")},
         {("sums", "free"), ("sums", "param_search_free"), ("choice", "plain"), ("choice", "plain.lm-eval")}),
        ({"only_jobs": ("plain",)}, {("choice", "plain"), ("choice", "plain.lm-eval")}),
        ({"only_jobs": ("plain.lm-eval",)}, {("choice", "plain.lm-eval")}),
        ({"only_jobs": ("cot",)}, set()),
        ({"skip_jobs": ("plain", "param_search_free")},
         {("maths", "free_judge"), ("maths", "param_search_free_judge"), ("sums", "free"), ("demo", "free")}),
        ({"skip_datasets": ("maths", "demo", "choice")}, {("sums", "free"), ("sums", "param_search_free")}),
        ({"profiles": (EVAL,)}, {("choice", "plain.lm-eval")}),
        ({"domains": ("multi_choice",)}, {("choice", "plain"), ("choice", "plain.lm-eval")}),
        ({"domains": (SEARCH,)}, SEARCHES),
    ],
)  # fmt: skip
def test_the_flags_beside_a_suite_leave_out_some_of_it(flags: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    assert chosen(WHOLE, **flags) == expected


@given(st.data())
def test_no_flag_adds_anything_to_a_suite(data: st.DataObject) -> None:
    def some(values: set[str]) -> st.SearchStrategy[tuple[str, ...]]:
        return st.lists(st.sampled_from(sorted(values)), max_size=2, unique=True).map(tuple)

    names, kinds = {one.benchmark for one in OFFERS}, {text for one in OFFERS for text in (one.kind, one.job)}
    flags = {"only_jobs": some(kinds), "skip_jobs": some(kinds), "only_datasets": some(names),
             "skip_datasets": some(names), "profiles": some({SKILLS, EVAL}),
             "domains": some({one.domain for one in OFFERS})}  # fmt: skip
    given = data.draw(st.fixed_dictionaries(flags))
    if {*given["only_datasets"]} <= {benchmark for benchmark, _ in chosen(WHOLE)}:
        without_judge = chosen(WHOLE, skip_jobs=("free_judge",))
        assert chosen(WHOLE, **given) <= chosen(WHOLE) | without_judge
    else:
        with pytest.raises(SelectionError, match="is not of the suite"):
            chosen(WHOLE, **given)


# -- the models of a search


def model(file: str, **changes: Any) -> ModelFact:
    name = file_names.parse(file)
    fact = ModelFact(name=name.text, path=f"/weights/{name.text}.pth", sha256=f"sha-{name.text}",
                     architecture=name.architecture, parameters_b=name.size_b, order=name.sort_key)  # fmt: skip
    return replace(fact, **changes)


OLD, NEW = (model(f"rwkv7-{version}-2.9b-20250101-ctx4096.pth") for version in ("g1a", "g1b"))
SMALL = model("rwkv7-g1a-0.1b-20250101-ctx4096.pth")
MODELS = (SMALL, OLD, NEW)


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        (SuiteSearch(models=("*2.9b*",)), [OLD, NEW]),
        (SuiteSearch(models=("*2.9b*",), newest=True), [NEW]),
        (SuiteSearch(models=("*",), newest=True), [SMALL, NEW]),
        (SuiteSearch(models=("*g1a*",), newest=True), [SMALL, OLD]),
        (SuiteSearch(models=("*nothing*", SMALL.name)), [SMALL]),
        (SuiteSearch(models=("*nothing*",)), []),
    ],
)
def test_settings_are_searched_for_of_the_models_that_a_suite_names(
    search: SuiteSearch, expected: list[ModelFact]
) -> None:
    assert list(searched_models(suite_of("maths", search=search), MODELS)) == expected


def test_without_a_search_of_the_suite_no_model_is_left_out() -> None:
    assert list(searched_models(None, MODELS)) == list(MODELS)
    assert list(searched_models(suite_of("maths"), MODELS)) == list(MODELS)


# -- the pairs of both


def fact(benchmark: str, number: int, domain: str) -> KindFact:
    return KindFact(benchmark=benchmark, kind=f"k{number}", domain=domain, benchmark_version=1, configuration={},
                    repeats=1, grader="g", grader_version="1", rows=1, rows_sha256="r")  # fmt: skip


KINDS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("free_response", SEARCH))), max_size=6)
SHAS = st.lists(st.sampled_from(("", "x", "y", "z")), max_size=5)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Any kinds on any models, of which some are searched; several may be of the same weights, or not hashed yet."""
    models = tuple(ModelFact(name=f"m{n}", path=f"/m{n}", sha256=sha) for n, sha in enumerate(draw(SHAS)))
    kinds = tuple(fact(benchmark, n, domain) for n, (benchmark, domain) in enumerate(draw(KINDS)))
    return Grid(models, kinds, tuple(one for one in models if draw(st.booleans())))


def pairs_of(grid: Grid) -> list[tuple[ModelFact, KindFact]]:
    return [(one, kind) for kind in grid.kinds for one in (grid.searched if kind.domain == SEARCH else grid.models)]


@given(grids())
def test_every_kind_is_planned_on_exactly_its_models_in_order(grid: Grid) -> None:
    expected = pairs_of(grid)
    assert len(grid) == len(expected)
    assert [grid.at(place) for place in range(len(grid))] == expected


@given(grids(), st.data())
def test_before_a_page_come_all_earlier_pairs_that_may_be_the_same_work(grid: Grid, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(grid)))
    places = range(first, data.draw(st.integers(first, len(grid))))
    pairs = pairs_of(grid)
    weights = {pairs[place][0].sha256 for place in places} - {""}
    benchmarks = {pairs[place][1].benchmark for place in places}
    expected = [
        place for place in range(first)
        if pairs[place][0].sha256 in weights and pairs[place][1].benchmark in benchmarks
    ]  # fmt: skip
    assert grid.before(places) == expected
