"""The planner: which models and kinds a selection means, the one reason for each pair, their order, and the hash."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from rwkv_daemon.rules import plan as plan_module
from rwkv_daemon.rules.plan import (
    Facts,
    KindFact,
    ModelFact,
    NoModelError,
    Plan,
    SelectionError,
    select_kinds,
    select_models,
)
from rwkv_weights.local import file_names
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.states import REASONS


def model(file: str, **changes: Any) -> ModelFact:
    name = file_names.parse(file)
    fact = ModelFact(
        name=name.text,
        path=f"/weights/main/{name.text}.pth",
        sha256=f"sha-{name.text}",
        architecture=name.architecture,
        parameters_b=name.size_b,
        order=name.sort_key,
    )
    return replace(fact, **changes)


def kind(benchmark: str, name: str = "plain", **changes: Any) -> KindFact:
    fact = KindFact(
        benchmark=benchmark,
        benchmark_version=1,
        kind=name,
        domain="free_response",
        configuration={"kind": name, "seed": 42},
        repeats=1,
        grader="number",
        grader_version="1",
        rows=100,
        rows_sha256=f"rows-{benchmark}",
        chain_of_thought="cot" in name,
    )
    return replace(fact, **changes)


BUILTIN = model("rwkv7-builtin.pth", name="builtin", builtin=True)
SMALL_A, SMALL_A3, SMALL_B = (model(f"rwkv7-{v}-0.1b-20250101-ctx4096.pth") for v in ("g1a", "g1a3", "g1b"))
BIG = model("rwkv7-g1a-2.9b-20250101-ctx4096.pth")
UNVERSIONED = model("rwkv7-0.1b.pth")
NAMELESS = model("my finetune.pth")
MODELS = (BUILTIN, SMALL_A, SMALL_A3, SMALL_B, BIG, UNVERSIONED, NAMELESS)
KINDS = (
    kind("math_500", "plain"),
    kind("math_500", "cot", repeats=4),
    kind("gsm8k", "cot", rows=1319),
    kind("arc_challenge", "plain", domain="multi_choice", rows=1172),
    kind("obscure", "plain", rows=10),
    kind("demo_arith", "plain", builtin=True),
)
FACTS = Facts(models=MODELS, kinds=KINDS, numerics="fp32")


def chosen(**flags: Any) -> list[ModelFact]:
    return select_models(Selection(**flags), MODELS)


def make_plan(selection: Selection, facts: Facts) -> Plan:
    """The plan of the kinds that the selection means."""
    return plan_module.make_plan(selection, replace(facts, kinds=tuple(select_kinds(selection, facts.kinds))))


def rows(plan: Plan) -> list[tuple[str, str, str]]:
    return [(pair.row.model, pair.row.benchmark, pair.row.kind) for pair in plan.pairs]


def only(facts: Facts, **flags: Any) -> Any:
    """The one row of a plan for one model and one kind."""
    (pair,) = make_plan(Selection(models=(SMALL_B.name,), only_datasets=("gsm8k",), **flags), facts).pairs
    return pair.row


# -- models


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (("*g1a3*",), [SMALL_A3]),
        (("rwkv7-g1a*-0.1b*",), [SMALL_A, SMALL_A3]),
        (("my finetune",), [NAMELESS]),
        (("my finetune.pth",), [NAMELESS]),
        (("/weights/main/my finetune.pth",), [NAMELESS]),
        (("main/my*",), [NAMELESS]),
        (("*2.9b*", "*g1b*"), [SMALL_B, BIG]),
        (("builtin",), [BUILTIN]),
        (("builtin", "*g1b*"), [SMALL_B, BUILTIN]),
    ],
)
def test_globs(globs: tuple[str, ...], expected: list[ModelFact]) -> None:
    assert chosen(models=globs) == expected


@pytest.mark.parametrize("globs", [(), ("*",), ("*.pth",), ("/weights/*",)])
def test_the_builtin_model_runs_only_when_it_is_named(globs: tuple[str, ...]) -> None:
    assert BUILTIN not in chosen(models=globs)


def test_models_come_in_natural_order() -> None:
    assert chosen() == [UNVERSIONED, SMALL_A, SMALL_A3, SMALL_B, BIG, NAMELESS]


def test_expressions_match_anywhere_in_the_name() -> None:
    assert chosen(model_regex=(r"g1a\d+-", r"^my")) == [SMALL_A3, NAMELESS]
    assert chosen(models=("*0.1b*",), model_regex=(r"g1[ab]",)) == [SMALL_A, SMALL_A3, SMALL_B]
    with pytest.raises(SelectionError, match=r"--model-regex '\[' is not a valid expression"):
        chosen(model_regex=("[",))


@pytest.mark.parametrize("flags", [{"models": ("nothing*",)}, {"model_regex": ("nothing",)}])
def test_a_selection_that_matches_no_model_says_what_was_asked(flags: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(SelectionError, match="nothing"):
        chosen(**flags)


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (1.0, None, [BIG, NAMELESS]),  # a model of unknown size passes a lower bound
        (None, 1.0, [UNVERSIONED, SMALL_A, SMALL_A3, SMALL_B]),  # and fails an upper one
        (0.1, 2.9, [UNVERSIONED, SMALL_A, SMALL_A3, SMALL_B, BIG]),  # bounds are included
        (3.0, 4.0, []),
        (0.0, None, [UNVERSIONED, SMALL_A, SMALL_A3, SMALL_B, BIG, NAMELESS]),
    ],
)
def test_size_bounds(least: float | None, most: float | None, expected: list[ModelFact]) -> None:
    assert chosen(min_param_b=least, max_param_b=most) == expected


def test_latest_data_keeps_the_last_version_of_each_size_and_all_of_unknown_size() -> None:
    assert chosen(model_select="latest-data") == [SMALL_B, BIG, NAMELESS]
    other_architecture = model("rwkv6-g1-0.1b.pth")
    found = select_models(Selection(model_select="latest-data"), [SMALL_B, SMALL_A3, other_architecture])
    assert found == [other_architecture, SMALL_B]


def test_param_extrema_keeps_the_first_and_last_of_each_size() -> None:
    assert chosen(model_select="param-extrema") == [UNVERSIONED, SMALL_B, BIG, NAMELESS]
    assert select_models(Selection(model_select="param-extrema"), [SMALL_B, SMALL_A3]) == [SMALL_A3, SMALL_B]


# -- kinds


@pytest.mark.parametrize(
    ("given_name", "benchmark"),
    [
        ("math_500", "math_500"),
        ("MATH-500", "math_500"),
        ("math500", "math_500"),
        ("math500_test", "math_500"),
        ("gsm8k_test", "gsm8k"),
        ("GSM8K main", "gsm8k"),
        ("arc", "arc_challenge"),
        ("ARC-Challenge", "arc_challenge"),
        ("arc_challenge_validation", "arc_challenge"),
        ("demo_arith", "demo_arith"),
    ],
)
def test_usual_spellings_of_a_benchmark(given_name: str, benchmark: str) -> None:
    plan = make_plan(Selection(only_datasets=(given_name,)), FACTS)
    assert {row[1] for row in rows(plan)} == {benchmark}


@pytest.mark.parametrize("name", ["arc_easy", "math500_hard", "mmlu", "", "___", "gsm8k_test_test"])
def test_a_benchmark_that_merely_begins_like_a_known_one_is_unknown(name: str) -> None:
    with pytest.raises(SelectionError, match="--only-datasets: unknown"):
        make_plan(Selection(only_datasets=(name,)), FACTS)


@pytest.mark.parametrize(
    "flag", ["--only-jobs", "--skip-jobs", "--job-order", "--domains", "--only-datasets", "--skip-datasets"]
)
def test_unknown_names_are_refused_with_their_flag_and_what_is_known(flag: str) -> None:
    field = flag.removeprefix("--").replace("-", "_")
    with pytest.raises(SelectionError, match=f"{flag}: unknown nonsense; known are "):
        make_plan(changed(Selection(), **{field: ("nonsense",)}), FACTS)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, {"math_500", "gsm8k", "arc_challenge", "obscure"}),
        ({"only_jobs": ("cot",)}, {"math_500", "gsm8k"}),
        ({"skip_jobs": ("plain",)}, {"math_500", "gsm8k"}),
        ({"domains": ("multi_choice",)}, {"arc_challenge"}),
        ({"only_datasets": ("gsm8k", "demo_arith")}, {"gsm8k", "demo_arith"}),
        ({"skip_datasets": ("gsm8k_test",)}, {"math_500", "arc_challenge", "obscure"}),
        ({"only_datasets": ("gsm8k",), "skip_datasets": ("gsm8k",)}, set()),
    ],
)
def test_filters_of_kinds(flags: dict[str, tuple[str, ...]], expected: set[str]) -> None:
    assert {row[1] for row in rows(make_plan(changed(Selection(), **flags), FACTS))} == expected


# -- pairs


def test_every_pair_is_there_once_with_one_action_and_one_reason() -> None:
    plan = make_plan(Selection(), FACTS)
    assert len(plan.pairs) == len(set(rows(plan))) == 6 * 5
    assert (plan.models, plan.benchmarks) == (6, 4)
    for pair in plan.pairs:
        assert (pair.row.action, pair.row.reason) == ("run", "run")
        assert pair.row.detail
        assert pair.row.generation_key == pair.generation_key != ""


BROKEN = replace(SMALL_B, broken="two loads failed")
UNHASHED = replace(SMALL_B, sha256="")
MISSING = kind("gsm8k", rows=None, rows_sha256="")
READY = kind("gsm8k")


def scored(_key: str) -> str:
    return "j7"


def opened(*_of: str) -> Any:
    return "j8", "skip", "queued", "j8 is queued"


def stopped(*_of: str) -> Any:
    return "j9", "resume", "resume", "j9 has 3 of 10 samples"


@pytest.mark.parametrize(
    ("fact", "of_kind", "more", "expected"),
    [
        (BROKEN, READY, {"open_jobs": opened, "scored": scored, "disk_low": True}, ("skip", "queued", "j8")),
        (BROKEN, READY, {"scored": scored, "disk_low": True}, ("hold", "does-not-load", "")),
        (SMALL_B, READY, {"open_jobs": opened, "scored": scored, "disk_low": True}, ("skip", "queued", "j8")),
        (SMALL_B, READY, {"open_jobs": stopped, "scored": scored}, ("resume", "resume", "j9")),
        (SMALL_B, READY, {"scored": scored, "disk_low": True}, ("skip", "done", "j7")),
        (UNHASHED, MISSING, {"scored": scored, "disk_low": True}, ("skip", "data-missing", "")),
        (UNHASHED, READY, {"scored": scored, "disk_low": True}, ("hold", "weights-hashing", "")),
        (replace(UNHASHED, copying=True), READY, {}, ("hold", "weights-copying", "")),
        (SMALL_B, READY, {"disk_low": True}, ("hold", "disk-low", "")),
        (SMALL_B, READY, {}, ("run", "run", "")),
    ],
)
def test_the_first_reason_that_applies_is_given(
    fact: ModelFact, of_kind: KindFact, more: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    row = only(Facts(models=(fact,), kinds=(of_kind,), numerics="fp32", **more))
    assert (row.action, row.reason, row.job) == expected
    assert row.detail


def test_overwrite_runs_what_has_a_score_but_never_what_is_queued() -> None:
    facts = Facts(models=(SMALL_B,), kinds=(READY,), numerics="fp32", scored=scored)
    assert only(facts).action == "skip"
    assert only(facts, overwrite=True).action == "run"
    assert only(replace(facts, open_jobs=opened), overwrite=True).action == "skip"


def test_a_model_without_rows_is_held_or_left_out() -> None:
    facts = Facts(models=(SMALL_B,), kinds=(MISSING,), numerics="fp32")
    held, left_out = only(facts, hold_missing=True), only(facts)
    assert (held.action, left_out.action) == ("hold", "skip")
    assert held.reason == left_out.reason == "data-missing"
    assert held.detail == "rwkvctl data prepare gsm8k"
    assert (held.rows, held.samples, held.generation_key) == (None, None, "")
    other = replace(facts, kinds=(replace(MISSING, rows_problem="release v5 has 880 rows, and 3 are prepared"),))
    assert only(other).detail == "release v5 has 880 rows, and 3 are prepared"


def test_the_score_and_the_open_job_are_looked_up_by_what_the_work_is() -> None:
    asked: list[tuple[str, ...]] = []

    def open_jobs(*of: str) -> None:
        asked.append(of)

    def ask_score(key: str) -> str:
        asked.append((key,))
        return ""

    facts = Facts(models=(SMALL_B,), kinds=(READY,), numerics="fp32", open_jobs=open_jobs, scored=ask_score)
    (pair,) = make_plan(Selection(models=(SMALL_B.name,)), facts).pairs
    assert asked == [(SMALL_B.path, "gsm8k", "plain", pair.grade_key), (pair.grade_key,)]


# -- order


def test_jobs_are_ordered_by_flag_then_fame_then_samples_then_model() -> None:
    by_default = list(dict.fromkeys((b, k) for _, b, k in rows(make_plan(Selection(), FACTS))))
    assert by_default == [
        ("math_500", "plain"),  # well known and direct
        ("math_500", "cot"),  # well known: 4 x 100 samples
        ("gsm8k", "cot"),  # well known: 1319 samples
        ("obscure", "plain"),
        ("arc_challenge", "plain"),
    ]
    wanted = list(dict.fromkeys((b, k) for _, b, k in rows(make_plan(Selection(job_order=("cot",)), FACTS))))
    assert wanted[:2] == [("math_500", "cot"), ("gsm8k", "cot")]
    first = [name for name, benchmark, k in rows(make_plan(Selection(), FACTS)) if (benchmark, k) == by_default[0]]
    assert first == [m.name for m in chosen()]


# -- the key and the hash


def only_key(facts: Facts = FACTS, **flags: Any) -> str:
    return str(only(facts, **flags).generation_key)


def test_limit_seed_and_numerics_are_part_of_the_key() -> None:
    keys = {
        only_key(),
        only_key(limit=10),
        only_key(limit=11),
        only_key(replace(FACTS, kinds=(kind("gsm8k", "cot", configuration={"kind": "cot", "seed": 7}),))),
        only_key(replace(FACTS, numerics="fast")),
        only_key(replace(FACTS, kinds=(kind("gsm8k", "cot", configuration={"kind": "cot", "seed": 42, "t": 1}),))),
    }
    assert len(keys) == 6


def test_a_limit_that_leaves_nothing_out_is_no_other_work() -> None:
    assert only_key(limit=1319) == only_key(limit=10_000) == only_key()


def test_a_limit_takes_rows_and_repeats_multiply_them() -> None:
    facts = replace(FACTS, kinds=(kind("gsm8k", repeats=4, rows=100),))
    assert (only(facts).rows, only(facts).samples) == (100, 400)
    assert (only(facts, limit=10).rows, only(facts, limit=10).samples) == (10, 40)
    assert only(facts, limit=1000).rows == 100


def plan_hash(facts: Facts = FACTS, **flags: Any) -> str:
    return make_plan(changed(Selection(), **flags), facts).hash


def test_the_hash_changes_with_key_action_and_reason() -> None:
    unhashed = replace(FACTS, models=tuple(replace(m, sha256="") for m in MODELS))
    hashes = [
        plan_hash(),
        plan_hash(limit=5),
        plan_hash(models=(SMALL_A3.name,)),
        plan_hash(replace(FACTS, scored=scored)),
        plan_hash(replace(FACTS, disk_low=True)),
        plan_hash(replace(FACTS, models=tuple(replace(m, broken="no") for m in MODELS))),
        plan_hash(unhashed),
        plan_hash(unhashed, models=(SMALL_A3.name,)),
        plan_hash(unhashed, models=(SMALL_B.name,)),
    ]
    assert len(set(hashes)) == len(hashes)


def test_the_hash_does_not_depend_on_details_order_or_how_the_flags_were_spelt() -> None:
    detailed = replace(FACTS, open_jobs=lambda *_: ("j1", "resume", "resume", "j1 has 3 of 10 samples"))
    further = replace(FACTS, open_jobs=lambda *_: ("j1", "resume", "resume", "j1 has 9 of 10 samples; ETA 3 min"))
    assert plan_hash(detailed) == plan_hash(further)
    assert plan_hash(replace(FACTS, models=MODELS[::-1], kinds=KINDS[::-1])) == plan_hash()
    assert plan_hash(job_order=("cot",)) == plan_hash()
    assert plan_hash(only_datasets=("math500",)) == plan_hash(only_datasets=("MATH-500", "math_500_test"))


def known(job: str, share: int) -> Callable[[str], str]:
    """Says of one in `share` keys that it has a score, always of the same ones."""
    return lambda key: job if key and int(key, 16) % share == 0 else ""


@given(
    st.permutations(MODELS),
    st.permutations(KINDS),
    st.builds(
        Selection,
        model_select=st.sampled_from(["all", "latest-data", "param-extrema"]),
        limit=st.none() | st.integers(1, 2000),
        min_param_b=st.none() | st.floats(0, 3),
        max_param_b=st.none() | st.floats(0, 3),
        seed=st.integers(0, 3),
        overwrite=st.booleans(),
        job_order=st.sampled_from([(), ("cot",), ("plain", "cot")]),
    ),
    st.integers(1, 5),
    st.booleans(),
)
def test_the_same_facts_give_the_same_plan(
    models: list[ModelFact], kinds: list[KindFact], selection: Selection, share: int, disk_low: bool
) -> None:
    facts = Facts(models=MODELS, kinds=KINDS, numerics="fast", scored=known("j3", share), disk_low=disk_low)
    shuffled = replace(facts, models=tuple(models), kinds=tuple(kinds))
    plan = make_plan(selection, facts)
    assert plan == make_plan(selection, facts) == make_plan(selection, shuffled)
    assert plan.hash == make_plan(selection, shuffled).hash
    for pair in plan.pairs:
        assert pair.row.reason in REASONS
        assert (pair.row.action == "run") is (pair.row.reason == "run")
        assert (pair.row.reason == "done") is (not selection.overwrite and known("j", share)(pair.grade_key) == "j")


def test_a_glob_that_matches_nothing_is_an_error_even_beside_one_that_does() -> None:
    with pytest.raises(NoModelError, match=r"--models: no model matches typo\*"):
        chosen(models=("*", "typo*"))


def test_a_name_that_is_none_is_answered_with_those_near_it() -> None:
    there = SMALL_B.name
    with pytest.raises(NoModelError, match=rf"no model matches x{there} \(near it: .*{there}"):
        chosen(models=(f"x{there}",))
    with pytest.raises(SelectionError, match=r"unknown gsmk8 \(near it: gsm8k\); known are"):
        make_plan(Selection(only_datasets=("gsmk8",)), FACTS)


# -- profiles and judges

PROFILED = replace(
    FACTS,
    kinds=(
        kind("gsm8k", "free_response", profile="rwkv-skills-v1"),
        kind("gsm8k", "free_response.lm-eval", profile="lm-eval", default=False),
        kind("gsm8k", "free_response_judge", profile="rwkv-skills-v1", judged=True),
        kind("mmlu", "multi_choice_plain.lm-eval", profile="lm-eval", default=False),
    ),
)


def kinds_of(**flags: Any) -> list[str]:
    plan = make_plan(Selection(models=(SMALL_B.name,), **flags), PROFILED)
    return sorted(pair.row.kind for pair in plan.pairs)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, ["free_response", "free_response_judge"]),
        ({"profiles": ("lm-eval",)}, ["free_response.lm-eval", "multi_choice_plain.lm-eval"]),
        ({"only_jobs": ("free_response",)}, ["free_response"]),
        ({"only_jobs": ("free_response.lm-eval",)}, ["free_response.lm-eval"]),
        ({"only_jobs": ("free_response",), "profiles": ("lm-eval",)}, ["free_response.lm-eval"]),
        ({"skip_jobs": ("free_response",)}, ["free_response_judge"]),
        ({"skip_jobs": ("free_response_judge",)}, ["free_response"]),
    ],
)
def test_kinds_of_other_profiles_run_when_they_or_their_profile_are_named(
    flags: dict[str, Any], expected: list[str]
) -> None:
    assert kinds_of(**flags) == expected


def test_an_unknown_profile_is_refused_with_those_that_exist() -> None:
    with pytest.raises(SelectionError, match="unknown lm_eval; known are lm-eval, rwkv-skills-v1"):
        kinds_of(profiles=("lm_eval",))


@pytest.mark.parametrize(
    ("judge", "only_jobs", "action", "reason"),
    [
        ("", (), "skip", "judge-not-configured"),
        ("", ("free_response_judge",), "hold", "judge-not-configured"),
        ("judge-x", (), "run", "run"),
    ],
)
def test_a_judged_kind_without_a_judge_is_left_out_unless_it_is_named(
    judge: str, only_jobs: tuple[str, ...], action: str, reason: str
) -> None:
    plan = make_plan(Selection(models=(SMALL_B.name,), only_jobs=only_jobs), replace(PROFILED, judge=judge))
    (row,) = [pair.row for pair in plan.pairs if pair.row.kind == "free_response_judge"]
    assert (row.action, row.reason) == (action, reason)


def test_a_model_s_own_settings_are_in_its_key() -> None:
    def for_model(one: ModelFact, fact: KindFact) -> KindFact:
        return replace(fact, repeats=8, configuration={"k": 8}) if one.name == BIG.name else fact

    plain = make_plan(Selection(only_datasets=("gsm8k",)), FACTS)
    own = make_plan(Selection(only_datasets=("gsm8k",)), replace(FACTS, for_model=for_model))
    differ = [a.row.model for a, b in zip(plain.pairs, own.pairs, strict=True) if a.generation_key != b.generation_key]
    assert differ == [BIG.name]


def test_grading_by_another_judge_is_another_grade_of_the_same_generation() -> None:
    one, other = (
        make_plan(
            Selection(only_datasets=("gsm8k",), models=(BIG.name,)),
            replace(FACTS, kinds=(kind("gsm8k", "cot", grading={"judge_model": judge}),)),
        ).pairs[0]
        for judge in ("a", "b")
    )
    assert one.generation_key == other.generation_key
    assert one.grade_key != other.grade_key


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("gpqa_diamond", "gpqa_diamond"),
        ("human_eval+", "human_eval_plus"),
        ("HumanEvalPlus", "human_eval_plus"),
        ("minerva_math_test", "minerva_ocw"),
        ("lcb", "livecodebench"),
        ("mmlu-pro", "mmlu_pro"),
    ],
)
def test_usual_spellings_of_the_catalogue(given: str, name: str) -> None:
    known = {"gpqa_diamond", "human_eval_plus", "minerva_ocw", "livecodebench", "mmlu_pro"}
    assert plan_module.slug(given, known, "--only-datasets") == name


def test_what_is_generated_and_graded_by_an_older_grader_is_not_generated_again() -> None:
    facts = replace(FACTS, generated=lambda key: {"cot": "j7"} if key else {})
    row = only(facts)
    assert (row.action, row.reason, row.job) == ("skip", "regrade", "j7")
    assert "regrade j7" in row.detail
    assert only(facts, overwrite=True).action == "run"


# -- one generation, two grades

SHARED = (
    kind("gsm8k", "free_response", asked_as="free_response", instead="free_response_judge"),
    kind(
        "gsm8k",
        "free_response_judge",
        asked_as="free_response",
        configuration={"kind": "free_response", "seed": 42},
        grader="judged-number",
        judged=True,
    ),
)
JUDGED = replace(FACTS, kinds=SHARED, judge="judge-x")
BOTH = ("free_response", "free_response_judge")


def test_kinds_that_differ_in_their_grader_alone_are_generated_once() -> None:
    first, second = make_plan(Selection(models=(SMALL_B.name,), only_jobs=BOTH), JUDGED).pairs
    assert first.generation_key == second.generation_key
    assert first.grade_key != second.grade_key
    assert [first.generates, second.generates] == [True, False]
    assert second.row.detail == "grades the completions of free_response of this dispatch; nothing is generated"


def test_what_another_kind_has_generated_is_graded_and_not_generated_again() -> None:
    facts = replace(JUDGED, generated=lambda key: {"free_response": "j7"} if key else {})
    pair = make_plan(Selection(models=(SMALL_B.name,)), facts).pairs[0]
    assert (pair.row.kind, pair.row.action, pair.generates) == ("free_response_judge", "run", False)
    assert "completions of j7" in pair.row.detail
    (again,) = make_plan(Selection(models=(SMALL_B.name,), overwrite=True), facts).pairs
    assert again.generates


def test_a_store_whose_judged_jobs_have_a_key_of_their_own_goes_on_with_it() -> None:
    alone = replace(SHARED[1], asked_as="", configuration={"kind": "free_response_judge", "seed": 42})
    (before,) = make_plan(Selection(models=(SMALL_B.name,)), replace(JUDGED, kinds=(alone,))).pairs
    facts = replace(
        JUDGED, used=lambda key: key == before.generation_key, scored=lambda key: "j3" * (key == before.grade_key)
    )
    (row,) = [pair.row for pair in make_plan(Selection(models=(SMALL_B.name,)), facts).pairs]
    assert (row.kind, row.action, row.reason, row.job) == ("free_response_judge", "skip", "done", "j3")


def test_other_settings_are_another_generation_whatever_the_grader() -> None:
    other = replace(SHARED[1], configuration={"kind": "free_response", "seed": 43})
    facts = replace(JUDGED, kinds=(SHARED[0], other))
    first, second = make_plan(Selection(models=(SMALL_B.name,), only_jobs=BOTH), facts).pairs
    assert first.generation_key != second.generation_key
    assert second.generates


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, ["free_response_judge"]),
        ({"only_jobs": ("free_response",)}, ["free_response"]),
        ({"skip_jobs": ("free_response_judge",)}, ["free_response"]),
    ],
)
def test_the_judged_kind_is_meant_where_neither_is_named(flags: dict[str, Any], expected: list[str]) -> None:
    plan = make_plan(Selection(models=(SMALL_B.name,), **flags), JUDGED)
    assert [pair.row.kind for pair in plan.pairs] == expected


QWQ = ModelFact(name="qwq", path="endpoint:qwq", sha256="e" * 64, api="chat")
RAW = ModelFact(name="raw", path="endpoint:raw", sha256="f" * 64, api="completions", logprobs="")


def endpoint_plan(models: tuple[str, ...], kinds: tuple[KindFact, ...], *facts: ModelFact) -> Plan:
    known = Facts(models=(SMALL_A, *(facts or (QWQ, RAW))), kinds=kinds, numerics="fp32")
    return make_plan(Selection(models=models), known)


def test_a_model_behind_an_endpoint_is_measured_only_if_it_is_named() -> None:
    turn = (kind("gsm8k", takes_chat=True),)
    assert [pair.model.name for pair in endpoint_plan((), turn).pairs] == [SMALL_A.name]
    for globs, names in [(("qwq",), ["qwq"]), (("endpoint:*",), ["qwq", "raw"]), (("*",), [SMALL_A.name])]:
        assert [pair.model.name for pair in endpoint_plan(globs, turn).pairs] == names


def test_the_api_stands_where_the_numerics_stand_and_is_in_the_key() -> None:
    turn = (kind("gsm8k", takes_chat=True),)
    (chat,) = endpoint_plan(("qwq",), turn).pairs
    (raw,) = endpoint_plan(("qwq",), turn, replace(QWQ, api="completions", logprobs="")).pairs
    assert (chat.row.numerics, raw.row.numerics) == ("chat", "completions")
    assert chat.generation_key != raw.generation_key
    assert (chat.row.action, chat.row.weights) == ("run", "endpoint:qwq")


def test_a_chat_api_is_not_asked_what_it_cannot_continue() -> None:
    (pair,) = endpoint_plan(("qwq",), (kind("mmlu", chooses=True),)).pairs
    assert (pair.row.action, pair.row.reason) == ("skip", "endpoint-cannot")
    assert "--only-jobs free_response.chat" in pair.row.detail


@pytest.mark.parametrize(
    ("logprobs", "action", "reason"),
    [("", "run", "run"), ("it refuses echo", "skip", "endpoint-cannot"), (None, "hold", "endpoint-away")],
)
def test_kinds_that_choose_need_log_probabilities_of_the_prompt(logprobs: str | None, action: str, reason: str) -> None:
    (pair,) = endpoint_plan(("raw",), (kind("mmlu", chooses=True),), replace(RAW, logprobs=logprobs)).pairs
    assert (pair.row.action, pair.row.reason) == (action, reason)
    (other,) = endpoint_plan(("raw",), (kind("gsm8k"),), replace(RAW, logprobs=logprobs)).pairs
    assert other.row.action == "run"


def test_a_name_of_a_checkpoint_and_an_endpoint_is_refused() -> None:
    with pytest.raises(SelectionError, match="rename the table of the endpoint"):
        endpoint_plan((SMALL_A.name,), (kind("gsm8k"),), replace(QWQ, name=SMALL_A.name))


def test_the_memory_of_the_node_does_not_matter_to_an_endpoint() -> None:
    known = Facts(models=(QWQ,), kinds=(kind("gsm8k", takes_chat=True),), numerics="fp32", fits=lambda _: "too large")
    (pair,) = make_plan(Selection(models=("qwq",)), known).pairs
    assert pair.row.action == "run"


TRAINING = kind("gsm8k_train", training=True)


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({}, ["gsm8k"]),
        ({"domains": ("free_response",)}, ["gsm8k"]),
        ({"only_jobs": ("plain",)}, ["gsm8k"]),
        ({"hold_missing": True}, ["gsm8k"]),
        ({"only_datasets": ("gsm8k_train",)}, ["gsm8k_train"]),
        ({"only_datasets": ("GSM8K-train",)}, ["gsm8k_train"]),
        ({"only_datasets": ("gsm8k", "gsm8k_train")}, ["gsm8k", "gsm8k_train"]),
        ({"only_datasets": ("gsm8k_train",), "skip_datasets": ("gsm8k_train",)}, []),
    ],
)
def test_a_training_set_runs_only_when_its_own_name_is_given(selection: dict[str, Any], names: list[str]) -> None:
    found = select_kinds(Selection(**selection), [kind("gsm8k"), TRAINING])
    assert [one.benchmark for one in found] == names


def test_a_name_of_a_benchmark_is_no_pattern() -> None:
    with pytest.raises(SelectionError, match=r"unknown gsm8k_t\*"):
        select_kinds(Selection(only_datasets=("gsm8k_t*",)), [kind("gsm8k"), TRAINING])
