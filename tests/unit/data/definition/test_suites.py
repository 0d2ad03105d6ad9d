"""[suites.NAME] of benchmarks.toml: what a suite says, and that every mistake in one is named by file and line."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from rwkv_data.definition import overrides, registry, suites
from rwkv_data.definition.suites import Suite, SuiteMember, SuiteSearch
from rwkvctl.protocol.errors import ConfigError

BENCHMARKS = {name: registry.load(name) for name in ("gsm8k", "mmlu", "arc_easy", "demo_arith")}
GSM8K = BENCHMARKS["gsm8k"].kinds["free_response"]
MMLU = BENCHMARKS["mmlu"].kinds["multi_choice_plain"]
FULL = """\
    [suites.nightly]
    description = "what every checkpoint is measured on"
    benchmarks = ["gsm8k", "mmlu", "arc_easy.multi_choice_plain.lm-eval"]
    kinds = ["free_response", "multi_choice_plain"]
    profiles = ["rwkv-skills-v1"]
    limit = 500
    [suites.nightly.defaults]
    seed = 7
    [suites.nightly.gsm8k]
    k = 4
    [suites.nightly.gsm8k.free_response.cot]
    temperature = 0.5
    [suites.nightly.search]
    models = ["rwkv7-*-2.9b*"]
    newest = true
    benchmarks = ["gsm8k"]
"""
Read = Callable[[str], dict[str, Suite]]


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def of(text: str) -> Path:
        path = tmp_path / "benchmarks.toml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return of


@pytest.fixture
def read(file: Callable[[str], Path]) -> Read:
    return lambda text: suites.read(file(text), BENCHMARKS)


def test_no_file_and_a_file_without_suites_have_none(read: Read, tmp_path: Path) -> None:
    assert suites.read(tmp_path / "none.toml", BENCHMARKS) == {}
    assert read("[gsm8k]\nk = 2\n") == {}


def test_a_full_suite_says_everything(read: Read) -> None:
    (suite,) = read(FULL).values()
    assert (suite.name, suite.description) == ("nightly", "what every checkpoint is measured on")
    assert suite.members == (
        SuiteMember("gsm8k"), SuiteMember("mmlu"), SuiteMember("arc_easy", "multi_choice_plain.lm-eval"),
    )  # fmt: skip
    assert (suite.kinds, suite.profiles) == (("free_response", "multi_choice_plain"), ("rwkv-skills-v1",))
    assert suite.limit == 500
    assert suite.search == SuiteSearch(models=("rwkv7-*-2.9b*",), newest=True, benchmarks=("gsm8k",))
    assert suite.settings("gsm8k", GSM8K) == {"seed": "7", "k": "4", "cot.temperature": "0.5"}
    chat = BENCHMARKS["gsm8k"].kinds["free_response.chat"]
    assert suite.settings("gsm8k", chat) == {"seed": "7", "k": "4"}, "what is said of a kind is for that kind"
    assert suite.settings("mmlu", MMLU) == {}, "a default reaches only kinds that have it"


def test_an_empty_table_is_a_suite_of_all_that_is_usual(read: Read) -> None:
    assert read("[suites.all]\n") == {"all": Suite(name="all")}


def test_several_suites_stand_in_the_order_of_the_file_beside_standing_settings(read: Read) -> None:
    found = read('[gsm8k]\nk = 2\n[suites.b]\nbenchmarks = ["mmlu"]\n[suites.a]\nbenchmarks = ["gsm8k"]\n')
    assert list(found) == ["b", "a"]
    assert found["a"].settings("gsm8k", GSM8K) == {}, "what is standing is not the suite's"


def test_a_benchmark_that_is_named_twice_is_one_member(read: Read) -> None:
    assert read('[suites.s]\nbenchmarks = ["gsm8k", "gsm8k"]\n')["s"].members == (SuiteMember("gsm8k"),)


@pytest.mark.parametrize(
    ("objective", "members"),
    [
        ('["gsm8k"]', (SuiteMember("gsm8k"),)),
        ('["demo_arith.free_response"]', (SuiteMember("demo_arith", "free_response"),)),
        ('["demo_arith", "gsm8k", "demo_arith"]', (SuiteMember("demo_arith"), SuiteMember("gsm8k"))),
    ],
)
def test_an_objective_is_what_the_best_checkpoint_is_the_best_in(
    read: Read, objective: str, members: tuple[SuiteMember, ...]
) -> None:
    suite = read(within(f"objective = {objective}\n"))["s"]
    assert suite.objective == members
    assert not suite.hold_back


def test_an_objective_may_be_a_kind_that_the_suite_names(read: Read) -> None:
    text = 'benchmarks = ["arc_easy.multi_choice_plain.lm-eval"]\nobjective = ["arc_easy.multi_choice_plain.lm-eval"]\n'
    (member,) = read(f"[suites.s]\n{text}")["s"].objective
    assert member == ("arc_easy", "multi_choice_plain.lm-eval")


def test_a_suite_of_all_that_is_usual_may_have_an_objective(read: Read) -> None:
    assert read('[suites.s]\nobjective = ["gsm8k"]\n')["s"].objective == (SuiteMember("gsm8k"),)


def test_an_objective_of_own_rows_that_are_gone_makes_no_file_wrong(read: Read) -> None:
    found = read('[suites.s]\nbenchmarks = ["own_gone"]\nobjective = ["own_gone"]\n')["s"]
    assert found.objective == (SuiteMember("own_gone"),)


@pytest.mark.parametrize(("value", "held"), [("true", True), ("false", False)])
def test_rows_are_held_back_where_it_is_said(read: Read, value: str, held: bool) -> None:
    assert read(within(f"hold_back = {value}\n"))["s"].hold_back is held


def within(text: str) -> str:
    """A suite of two benchmarks, whose lines after the second are these."""
    return f'[suites.s]\nbenchmarks = ["gsm8k", "demo_arith"]\n{text}'


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ('[suites.s]\nbenchmarks = ["gsmk"]\n', 2, "there is no benchmark 'gsmk'; did you mean gsm8k?"),
        ('[suites.s]\nbenchmarks = ["GSM8K"]\n', 2, "there is no benchmark 'GSM8K'"),
        ('[suites.s]\nbenchmarks = ["mmlu.cot"]\n', 2, "mmlu has no kind 'cot'; it has multi_choice_plain, multi_"),
        ('[suites.s]\nbenchmarks = ["gsm8k.param_search_free_response"]\n', 2, "[suites.s.search] schedules it"),
        ('[suites.s]\nbenchmarks = "gsm8k"\n', 2, "benchmarks must be a list of texts"),
        ("[suites.s]\nbenchmarks = [1]\n", 2, "benchmarks must be a list of texts"),
        ('[suites.s]\nbenchmarks = [""]\n', 2, "benchmarks must be a list of texts"),
        (within("benchmark = 'x'\n"), 3, "there is neither a key nor a benchmark 'benchmark'; the keys are descr"),
        (within("\n[suites.s.gsmk]\nk = 1\n"), 4, "there is neither a key nor a benchmark 'gsmk'"),
        (within("\n[suites.s.mmlu]\nseed = 1\n"), 4, "mmlu is not among the suite's benchmarks"),
        (within("mmlu = 1\n"), 3, "mmlu is not among the suite's benchmarks"),
        (within("gsm8k = 1\n"), 3, "[gsm8k] must be a table"),
        (within("[suites.s.gsm8k]\ncot.top_p = 7\n"), 4, "top_p=7 is not a number from 0 to 1"),
        (within("[suites.s.gsm8k]\nk = 2\ntemprature = 1\n"), 5, "there is no setting 'temprature'"),
        (within("[suites.s.gsm8k]\nfree_response = 1\n"), 4, "free_response is a kind: it must be a table"),
        (within("[suites.s.defaults]\nnonsense = 1\n"), 4, "there is no setting 'nonsense'"),
        (within('kinds = ["cot"]\n'), 3, "kinds: there is no 'cot'; there are free_response, "),
        (within('kinds = ["param_search_free_response"]\n'), 3, "kinds: there is no 'param_search_free_response'"),
        (within('profiles = ["lm-evl"]\n'), 3, "profiles: there is no 'lm-evl'; there are chat, "),
        (within('kinds = ["multi_choice_plain"]\n'), 2, "gsm8k has no kind of these kinds and profiles"),
        (within('profiles = ["chat"]\n'), 2, "demo_arith has no kind of these kinds and profiles"),
        (within("limit = 0\n"), 3, "limit must be at least 1, not 0"),
        (within("limit = -3\n"), 3, "limit must be at least 1, not -3"),
        (within("limit = true\n"), 3, "limit must be a number of rows"),
        (within('limit = "5"\n'), 3, "limit must be a number of rows"),
        (within("limit = 5.0\n"), 3, "limit must be a number of rows"),
        (within("description = 3\n"), 3, "description must be a text"),
        (within("search = 3\n"), 3, "search must be a table"),
        (within("[suites.s.search]\nnewest = true\n"), 3, "search needs models"),
        (within("[suites.s.search]\nmodels = []\n"), 3, "search needs models"),
        (within("[suites.s.search]\nmodels = ['*']\nmodel = 3\n"), 5, "search has no 'model'"),
        (within("[suites.s.search]\nmodels = ['*']\nnewest = 1\n"), 5, "newest must be true or false"),
        (within("[suites.s.search]\nmodels = ['*']\nbenchmarks = ['mmlu']\n"), 5, "'mmlu' is not among the suite's"),
        (within("[suites.s.search]\nmodels = ['*']\nbenchmarks = ['demo_arith']\n"), 5, "no kind of demo_arith in"),
        ('[suites.s]\nbenchmarks = ["mmlu"]\n[suites.s.search]\nmodels = ["*"]\n', 3, "no kind of the suite's bench"),
        ('[suites.s]\nbenchmarks = ["gsm8k."]\n', 2, "'gsm8k.' names no kind behind the dot"),
        ('[suites.s]\nbenchmarks = ["gsm8k.free_response"]\nkinds = ["multi_choice_plain"]\n', 3,
         "kinds and profiles are of benchmarks that are named alone"),
        ('[suites.s]\nkinds = ["multi_choice_plain.lm-eval"]\nprofiles = ["rwkv-skills-v1"]\n', 1,
         "no benchmark has a kind of these kinds and profiles"),
        ("[suites.s.demo_arith]\nk = 2\n", 1, "demo_arith is not among the suite's benchmarks"),
        (within("[suites.s.defaults]\nlimit = 4\n"), 4, "limit is a key of [suites.s] itself"),
        ('[suites.s]\nbenchmarks = []\n', 2, "benchmarks is empty; without the key"),
        ('[suites.s]\nbenchmarks = ["gsm8k.free_response.lm-eval"]\n[suites.s.search]\nmodels = ["*"]\n', 3,
         "no kind of the suite's benchmarks has a search"),
        ('[suites.s]\nbenchmarks = ["gsm8k.free_response.lm-eval"]\n[suites.s.gsm8k]\ncot.temperature = 1\n', 4,
         "there is no setting 'cot.temperature'"),
        ('[suites.s]\nbenchmarks = ["gsm8k"]\n[suites.s.gsm8k."free_response.lm-eval"]\nshots = 3\n', 3,
         "free_response.lm-eval of gsm8k is not among the suite's kinds"),
        ("\nsuites = 3\n", 2, "[suites] must hold a table for each suite"),
        ("\n[suites]\ns = 3\n", 3, "[suites.s] must be a table"),
        ("\n[[suites.s]]\nlimit = 3\n", 2, "[suites.s] must be a table"),
        (within('objective = ["gsmk"]\n'), 3, "there is no benchmark 'gsmk'; did you mean gsm8k?"),
        (within('objective = ["mmlu"]\n'), 3, "mmlu is not among what the suite measures"),
        (within('limit = 5\nobjective = ["gsm8k", "mmlu.multi_choice_plain"]\n'), 4, "mmlu.multi_choice_plain is not"),
        (within('objective = ["gsm8k.cot"]\n'), 3, "gsm8k has no kind 'cot'; it has "),
        (within('objective = ["gsm8k."]\n'), 3, "'gsm8k.' names no kind behind the dot"),
        (within('objective = ["gsm8k.param_search_free_response"]\n'), 3, "[suites.s.search] schedules it"),
        (within('objective = ["gsm8k.free_response.lm-eval"]\n'), 3, "gsm8k.free_response.lm-eval is not among what"),
        ('[suites.s]\nprofiles = ["rwkv-skills-v1"]\nobjective = ["gsm8k.free_response.chat"]\n', 3,
         "gsm8k.free_response.chat is not among what the suite measures"),
        ('[suites.s]\nbenchmarks = ["gsm8k.free_response.lm-eval"]\nobjective = ["gsm8k.free_response"]\n', 3,
         "gsm8k.free_response is not among what the suite measures"),
        (within("objective = []\n"), 3, "objective is empty; without the key the suite has none"),
        (within('objective = "gsm8k"\n'), 3, "objective must be a list of texts"),
        (within("objective = [1]\n"), 3, "objective must be a list of texts"),
        (within('objective = [""]\n'), 3, "objective must be a list of texts"),
        ('[suites.s]\nobjective = ["demo_arith"]\n', 2, "demo_arith is not among what the suite measures"),
        (within("hold_back = 1\n"), 3, "hold_back must be true or false"),
        (within('hold_back = "yes"\n'), 3, "hold_back must be true or false"),
        (within("[suites.s.defaults]\nhold_back = true\n"), 4, "hold_back is a key of [suites.s] itself"),
        ('[suites." s"]\nlimit = 3\n', 1, "' s' cannot be the name of a suite"),
        (f"[suites.{'s' * 65}]\n", 1, "cannot be the name of a suite"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_file_and_line(read: Read, text: str, line: int, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert f"benchmarks.toml:{line}: " in str(caught.value)
    assert complaint in str(caught.value)


def test_a_set_of_own_rows_that_is_gone_makes_no_file_wrong(read: Read, file: Callable[[str], Path]) -> None:
    text = '[suites.s]\n    benchmarks = ["own_gone", "gsm8k"]\n    [suites.s.own_gone]\n    k = 2\n'
    assert read(text)["s"].members == (SuiteMember("own_gone"), SuiteMember("gsm8k"))
    assert overrides.read(file("[own_gone]\n    k = 2\n"), BENCHMARKS).rules == ()


def test_a_table_suite_is_meant_to_be_one_of_suites(file: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError, match=r"benchmarks\.toml:1: .*suites are in tables \[suites.NAME\]"):
        overrides.read(file("[suite.nightly]\nlimit = 3\n"), BENCHMARKS)


def test_settings_of_a_search_are_settings_of_a_suite_that_searches(read: Read) -> None:
    grid = "[suites.s.gsm8k.param_search_free_response.grid]\n    temperature = [0.3, 0.6]\n"
    text = f'[suites.s]\n    benchmarks = ["gsm8k"]\n    [suites.s.search]\n    models = ["*"]\n    {grid}'
    kind = BENCHMARKS["gsm8k"].kinds["param_search_free_response"]
    assert read(text)["s"].settings("gsm8k", kind) == {"grid.temperature": "0.3,0.6"}
    with pytest.raises(ConfigError, match="is not among the suite's kinds"):
        read(f'[suites.s]\n    benchmarks = ["gsm8k"]\n    {grid}')


def test_a_mistake_in_a_list_over_several_lines_has_the_line_on_which_the_list_begins(read: Read) -> None:
    text = '[suites.a]\nlimit = 3\n[suites.s]\ndescription = "d"\nbenchmarks = [\n  "gsm8k",\n  "gsmk",\n]\nlimit = 5\n'
    with pytest.raises(ConfigError, match=r"benchmarks\.toml:5: suite s: there is no benchmark 'gsmk'"):
        read(text)


def test_a_remark_behind_the_bracket_that_opens_a_list_does_not_hide_its_line(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"benchmarks\.toml:4: suite s: there is no benchmark 'gsmk'"):
        read('[suites.a]\nlimit = 3\n[suites.s]\nbenchmarks = [  # the usual ones\n  "gsmk",\n]\n')


def test_a_key_after_a_list_over_several_lines_has_its_own_line(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"benchmarks\.toml:5: suite s: limit must be at least 1"):
        read('[suites.s]\nbenchmarks = [\n  "gsm8k",\n]\nlimit = 0\n')


def test_a_default_that_no_member_takes_is_refused_though_other_benchmarks_have_it(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"benchmarks\.toml:4: "):
        read('[suites.s]\nbenchmarks = ["arc_easy.multi_choice_plain"]\n[suites.s.defaults]\ncot.nothing = 3\n')
    with pytest.raises(ConfigError, match=r"benchmarks\.toml:4: .*there is no setting 'shots'"):
        read('[suites.s]\nbenchmarks = ["demo_arith"]\n[suites.s.defaults]\nshots = 2\n')
    assert read('[suites.s]\nbenchmarks = ["mmlu"]\n[suites.s.defaults]\nshots = 2\n')["s"].settings("mmlu", MMLU)


@pytest.mark.parametrize("strict", [True, False])
def test_standing_settings_are_read_as_if_there_were_no_suites(file: Callable[[str], Path], strict: bool) -> None:
    standing = '[gsm8k]\nk = 2\n[models."a*".gsm8k]\nk = 3\n'
    with_suites = overrides.read(file(standing + textwrap.dedent(FULL)), BENCHMARKS, strict=strict)
    assert with_suites == overrides.read(file(standing), BENCHMARKS, strict=strict)
    assert with_suites.settings("gsm8k", GSM8K) == {"k": "2"}


def test_a_program_that_knows_one_benchmark_does_not_mind_suites_of_others(file: Callable[[str], Path]) -> None:
    one = {"demo_arith": BENCHMARKS["demo_arith"]}
    path = file(FULL + "[demo_arith]\n    seed = 3\n    [gsm8k]\n    k = 3\n")
    found = overrides.read(path, one, strict=False)
    assert [(rule.benchmark, rule.name, rule.value) for rule in found.rules] == [("demo_arith", "seed", "3")]
