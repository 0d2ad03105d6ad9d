"""What is news of a checkpoint, and the files of its feedback."""

import json
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.rules.plan import SelectionError
from rwkv_daemon.training.feedback.page import page
from rwkv_daemon.training.feedback_task import FeedbackEvent, news, objective_of, question, write_files, written
from rwkv_data.definition import registry
from rwkv_data.definition.suites import Suite, SuiteMember
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.training.feedback import BenchmarkFeedback, CheckpointScores, FeedbackReply
from rwkvctl.protocol.training.watches import FINAL_STEP, WatchedView
from rwkvctl.protocol.views import ComparisonView, MetricView

VALUE = MetricView(value=0.5)
WHERE = "see f.md"


def checkpoint(name: str, *values: MetricView | None) -> CheckpointScores:
    return CheckpointScores(name=name, model=name, state="done", values=values)


def reply(name: str = "b", step: int | None = 20, **known: Any) -> FeedbackReply:
    one = WatchedView(id=1, name=name, state="done", step=step, model=name)
    plain: dict[str, Any] = {"watch": "w1", "name": "run", "checkpoint": one, "asked": 2, "done": 1,
                             "objective": ("gsm8k free_response",)}  # fmt: skip
    return FeedbackReply(**plain | known)


def told(found: FeedbackReply, before: Collection[tuple[str, str]] = ()) -> list[tuple[str, str]]:
    return [(event.what, event.text) for event in news("w1: b", found, WHERE, before)]


def item(collapsed: str = "", verdict: Any = "better", benchmark: str = "gsm8k") -> BenchmarkFeedback:
    compared = ComparisonView(benchmark=benchmark, kind="free_response", verdict=verdict)
    return BenchmarkFeedback(benchmark=benchmark, kind="free_response", job="j1", metric="accuracy", value=VALUE,
                             rows=9, samples=9, collapsed=collapsed, baseline=compared)  # fmt: skip


def test_a_feedback_is_news_with_what_is_in_it_and_where_it_is() -> None:
    assert told(reply()) == [("done", "w1: b (step 20): scores of 1 of 2 jobs; see f.md")]
    assert told(reply(baseline="base", best="a", best_model="a", items=(item(), item(verdict="worse")))) == [
        ("done", "w1: b (step 20): scores of 1 of 2 jobs; against base: 1 better, 1 worse; best so far: a; see f.md")
    ]


@pytest.mark.parametrize(("step", "said"), [(None, "w1: b: "), (FINAL_STEP, "w1: b (the last step): ")])
def test_a_step_is_named_where_there_is_one(step: int | None, said: str) -> None:
    assert told(reply(step=step))[0][1].startswith(said)


def test_that_it_is_the_best_is_news_where_there_are_others() -> None:
    several = (checkpoint("a", VALUE), checkpoint("b", VALUE), checkpoint("c", None))
    assert told(reply(best="b", best_model="b", checkpoints=several))[1:] == [
        ("best", "w1: b (step 20) is the best of 2 by gsm8k free_response")
    ]


@pytest.mark.parametrize(
    "others",
    [
        (),
        (checkpoint("a", None),),
        (checkpoint("a", MetricView(value=None)),),
        (checkpoint("a", None), checkpoint("c", None)),
    ],
)
def test_the_first_checkpoint_with_a_score_is_no_news_as_the_best(others: tuple[CheckpointScores, ...]) -> None:
    found = told(reply(best="b", best_model="b", checkpoints=(*others, checkpoint("b", VALUE))))
    assert [what for what, _ in found] == ["done"]


def test_that_another_one_is_the_best_is_no_news() -> None:
    several = (checkpoint("a", VALUE), checkpoint("b", VALUE))
    for known in ({"best": "a", "best_model": "a"}, {"best": "b", "best_model": "a"}, {}):
        assert [what for what, _ in told(reply(checkpoints=several, **known))] == ["done"]


def test_verdicts_are_said_as_the_page_says_them() -> None:
    found = reply(baseline="base", items=(item(verdict="no difference shown"), item(verdict="not comparable")))
    assert "; against base: 1 inconclusive, 1 undecided; see" in told(found)[0][1]
    assert "; against base: nothing to compare; see" in told(reply(baseline="base"))[0][1]


def test_all_collapses_of_a_checkpoint_are_one_news() -> None:
    found = told(reply(items=(item("no row has an answer"), item(benchmark="arc"), item("it fell", benchmark="mmlu"))))
    done = "w1: b (step 20): scores of 1 of 2 jobs; collapsed on gsm8k free_response, mmlu free_response; see f.md"
    text = "w1: b (step 20) has collapsed: gsm8k free_response: no row has an answer; mmlu free_response: it fell"
    assert found == [("done", done), ("collapsed", text)]


@pytest.mark.parametrize(
    ("before", "is_news"),
    [
        ([], True),
        ([("mmlu", "free_response")], True),
        ([("gsm8k", "cot")], True),
        ([("gsm8k", "free_response")], False),
        ([("gsm8k", "free_response"), ("mmlu", "free_response")], False),
    ],
)
def test_a_collapse_is_no_news_where_the_checkpoint_before_had_it(before: list[tuple[str, str]], is_news: bool) -> None:
    found = told(reply(items=(item("no row has an answer"), item(benchmark="mmlu"))), before)
    assert [what for what, _ in found] == ["done", *["collapsed"] * is_news]
    assert "collapsed on gsm8k free_response" in found[0][1]


def test_a_new_collapse_is_told_with_the_old_ones() -> None:
    found = told(reply(items=(item("a"), item("b", benchmark="mmlu"))), {("gsm8k", "free_response")})
    assert found[1][1] == "w1: b (step 20) has collapsed: gsm8k free_response: a; mmlu free_response: b"


def test_each_event_has_what_is_known_as_data() -> None:
    several = (checkpoint("a", VALUE), checkpoint("b", VALUE))
    found = reply(baseline="base", best="b", best_model="b", checkpoints=several, items=(item("none"),))
    events = list(news("w1: b", found, WHERE))
    assert [event.what for event in events] == ["done", "best", "collapsed"]
    for event in events:
        assert event.data == {
            "baseline": "base", "against_baseline": {"better": 1}, "best": "b",
            "collapsed": {"gsm8k free_response": "none"}, "done": 1, "asked": 2,
        }  # fmt: skip
        json.dumps(event.data)
    assert FeedbackEvent("done", "x").data == {}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


def test_a_feedback_lies_in_a_folder_of_its_own_and_the_newest_above(tmp_path: Path) -> None:
    first, second = reply("a", best_why="one\u202e"), reply("b", best_why="other")
    for found in (first, second):
        write_files(tmp_path / "run" / found.checkpoint.name, found, newest=True)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"a", "b", "feedback.md", "feedback.json"}
    for place, found in ((tmp_path / "run" / "a", first), (tmp_path / "run" / "b", second), (tmp_path / "run", second)):
        assert {"feedback.md", "feedback.json"} == names(place)
        assert (place / "feedback.md").read_text(encoding="utf-8") == page(found)
        raw = (place / "feedback.json").read_bytes()
        assert msgspec.json.decode(raw, type=FeedbackReply) == found
        assert json.loads(raw)["schema"] == "rwkvctl.feedback/1"


def test_one_that_is_not_the_newest_leaves_the_files_above_as_they_are(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_files(run / "a", reply("a"), newest=False)
    assert {path.name for path in run.iterdir()} == {"a"}
    write_files(run / "b", reply("b"), newest=True)
    write_files(run / "a", reply("a", best_why="again"), newest=False)
    assert (run / "feedback.md").read_text(encoding="utf-8") == page(reply("b"))
    assert (run / "a" / "feedback.md").read_text(encoding="utf-8") == page(reply("a", best_why="again"))
    assert names(run) == names(run / "a") == {"feedback.md", "feedback.json"}


def test_it_is_said_where_the_files_are_or_why_they_are_not(tmp_path: Path) -> None:
    place = tmp_path / "run" / "a"
    assert written(place, reply(), newest=True) == f"see {place / 'feedback.md'}"
    assert names(place) == names(tmp_path / "run") == {"feedback.md", "feedback.json"}
    (tmp_path / "file").write_bytes(b"")
    assert written(tmp_path / "file" / "a", reply(), newest=True) == (
        "its feedback could not be written: Not a directory; `rwkvctl feedback` shows it"
    )


def test_who_reads_a_file_while_it_is_replaced_reads_the_whole_old_one(tmp_path: Path) -> None:
    place = tmp_path / "run" / "a"
    write_files(place, reply(best_why="old"), newest=True)
    with (place / "feedback.json").open("rb") as open_one:
        write_files(place, reply(best_why="new"), newest=True)
        assert msgspec.json.decode(open_one.read(), type=FeedbackReply).best_why == "old"
    assert msgspec.json.decode((place / "feedback.json").read_bytes(), type=FeedbackReply).best_why == "new"


def test_what_a_crash_left_half_written_is_in_nobodys_way(tmp_path: Path) -> None:
    place = tmp_path / "run" / "a"
    place.mkdir(parents=True)
    (place / ".feedback.md.part").write_bytes(b"half" * 9999)
    write_files(place, reply(), newest=True)
    assert names(place) == {"feedback.md", "feedback.json"}
    assert (place / "feedback.md").read_text(encoding="utf-8") == page(reply())


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(b"")
    with pytest.raises(OSError, match="Not a directory"):
        write_files(tmp_path / "run" / "a", reply(), newest=True)


ARITH = ("demo_arith", "free_response")
CHOICE = ("demo_choice", "multi_choice_plain")
OF_SUITE = Selection(suite="s")
BOTH = (SuiteMember("demo_arith"), SuiteMember("demo_choice"))
NODE = ("demo_arith", "demo_choice", "gsm8k")


def catalogue(tmp_path: Path, *names: str, suite: Suite | None = None) -> NodeCatalogue:
    """A node with these of the built-in benchmarks."""
    benchmarks = NodeBenchmarks(tmp_path / "data", files={name: registry.load(name) for name in names})
    benchmarks.suites = {suite.name: suite} if suite else {}
    return NodeCatalogue(benchmarks)


def objective(
    tmp_path: Path, *wanted: SuiteMember, selection: Selection = OF_SUITE, **known: Any
) -> list[tuple[str, str]]:
    """Return what the declared objective of a suite comes to."""
    suite = Suite(name="s", objective=wanted, **{"members": BOTH} | known)
    return objective_of(catalogue(tmp_path, *NODE, suite=suite), selection, suite)


def test_an_objective_without_a_kind_is_each_measured_kind_of_it(tmp_path: Path) -> None:
    assert objective(tmp_path, SuiteMember("demo_choice")) == [CHOICE]
    assert objective(tmp_path, SuiteMember("demo_choice"), SuiteMember("demo_arith")) == [CHOICE, ARITH]
    kinds = ("free_response", "free_response.lm-eval")
    members = tuple(SuiteMember("gsm8k", kind) for kind in kinds)
    assert objective(tmp_path, SuiteMember("gsm8k"), members=members) == [("gsm8k", kind) for kind in kinds]


def test_an_objective_with_a_kind_is_that_one(tmp_path: Path) -> None:
    members = (SuiteMember("gsm8k"), SuiteMember("gsm8k", "free_response.lm-eval"))
    for kind in ("free_response", "free_response.lm-eval", "free_response.chat"):
        assert objective(tmp_path, SuiteMember("gsm8k", kind), members=members) == [("gsm8k", kind)]


def test_an_objective_that_is_not_measured_stays_without_a_kind(tmp_path: Path) -> None:
    """Or the best would be found by less than the suite declares."""
    assert objective(tmp_path, SuiteMember("gsm8k"), SuiteMember("demo_arith")) == [("gsm8k", ""), ARITH]
    only = Selection(suite="s", only_datasets=("demo_choice",))
    assert objective(tmp_path, SuiteMember("demo_arith"), selection=only) == [("demo_arith", "")]


def test_a_search_measures_nothing(tmp_path: Path) -> None:
    search = SuiteMember("gsm8k", "param_search_free_response")
    assert objective(tmp_path, SuiteMember("gsm8k"), members=(search,)) == [("gsm8k", "")]
    assert objective(tmp_path, members=(search,)) == []
    assert objective(tmp_path, members=(search, SuiteMember("demo_arith"))) == [ARITH]


def test_a_suite_without_an_objective_has_one_where_it_measures_one_kind(tmp_path: Path) -> None:
    assert objective(tmp_path, members=(SuiteMember("demo_arith"),)) == [ARITH]
    assert objective(tmp_path) == []


def test_without_a_suite_what_is_measured_is_the_objective_if_it_is_one(tmp_path: Path) -> None:
    node = catalogue(tmp_path, *NODE)
    assert objective_of(node, Selection(only_datasets=("demo_arith",)), None) == [ARITH]
    assert objective_of(node, Selection(only_datasets=("demo_arith", "demo_choice")), None) == []
    assert objective_of(catalogue(tmp_path), Selection(), None) == []


def test_what_was_declared_holds_where_it_cannot_be_told_what_is_measured(tmp_path: Path) -> None:
    gone = Selection(suite="s", settings={"rows": "900:"})
    declared = (SuiteMember("demo_arith"), SuiteMember("demo_choice", "multi_choice_plain"))
    assert objective(tmp_path, *declared, selection=gone) == [("demo_arith", ""), CHOICE]
    assert objective(tmp_path, selection=gone) == []
    alone = Selection(only_datasets=("demo_arith",), settings={"rows": "900:"})
    assert objective_of(catalogue(tmp_path, *NODE), alone, None) == []


@pytest.mark.parametrize(
    ("hold_back", "reveal", "part", "choosing"),
    [
        (False, False, "all", "all"),
        (False, True, "all", "all"),
        (True, False, "search", "search"),
        (True, True, "report", "search"),
    ],
)
def test_rows_that_are_held_back_are_shown_on_request_alone_and_never_choose(
    tmp_path: Path, hold_back: bool, reveal: bool, part: str, choosing: str
) -> None:
    suite = Suite(name="s", objective=(SuiteMember("demo_arith"),), hold_back=hold_back, members=BOTH)
    sources: Any = SimpleNamespace(catalogue=catalogue(tmp_path, *NODE, suite=suite))
    folder: Any = SimpleNamespace(selection=Selection(suite="s"))
    asked = question(sources, folder, [], 0, reveal=reveal)
    assert (asked.part, asked.choosing_part, asked.objective, asked.best) == (part, choosing, [ARITH], False)


def test_nothing_is_shown_where_nobody_knows_whether_rows_are_held_back(tmp_path: Path) -> None:
    sources: Any = SimpleNamespace(catalogue=catalogue(tmp_path, *NODE))
    folder: Any = SimpleNamespace(selection=Selection(suite="s"))
    with pytest.raises(SelectionError, match="there is no suite s"):
        question(sources, folder, [], 0)
