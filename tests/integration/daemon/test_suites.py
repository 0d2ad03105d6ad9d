"""`--suite` on a live node: what a suite of benchmarks.toml queues, what wins over it, and what is remembered of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from training_run import TrainingRun

from rwkvctl.protocol.errors import RefusedError

STANDING = """
[defaults]
seed = 9
[demo_arith]
k = 5
temperature = 0.5
[models."*".demo_arith]
k = 6
top_p = 0.5
"""
PAIR = """
[suites.pair]
description = "both"
benchmarks = ["demo_arith", "demo_choice"]
limit = 3
[suites.pair.defaults]
seed = 7
[suites.pair.demo_arith]
k = 2
"""
OTHER = """
[suites.other]
benchmarks = ["demo_choice", "gsm8k"]
limit = 2
"""
OF_BOTH = {"k": "2", "seed": "7", "temperature": "0.5", "top_p": "0.5"}
"""What the jobs of the suite are set to, with the standing settings beside it."""


@pytest.fixture
def node(new_node: Any, tmp_path: Path) -> Any:
    """A node with two suites and standing settings, not started yet."""
    node = new_node()
    node.settings["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    (tmp_path / "config" / "rwkvctl").mkdir(parents=True)
    write(node, STANDING + PAIR + OTHER)
    return node


def folder(node: Any) -> Path:
    return Path(node.settings["XDG_CONFIG_HOME"]) / "rwkvctl"


def write(node: Any, text: str) -> None:
    (folder(node) / "benchmarks.toml").write_text(text)


def plan(node: Any, **selection: Any) -> Any:
    wanted = {"models": ["builtin"], "suite": "pair"} | selection
    return node.api.post("/v1/plan", {"selection": wanted}).value


def dispatch(node: Any, **selection: Any) -> list[str]:
    return list(node.dispatch(**{"only_datasets": [], "suite": "pair"} | selection))


def finished(node: Any, **selection: Any) -> dict[str, dict[str, Any]]:
    """The jobs of a dispatch in the job log by benchmark, when they are done."""
    jobs = dispatch(node, **selection)
    assert {node.wait_for_state(job, "done", "failed")["state"] for job in jobs} <= {"done"}
    return {item["benchmark"]: item for item in logged(node) if item["job"] in jobs}


def logged(node: Any, **query: Any) -> list[dict[str, Any]]:
    return list(node.api.get("/v1/job-log", **query).value["items"])


def refused(node: Any, **selection: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        dispatch(node, **selection)
    return caught.value


def actions(made: Any) -> dict[str, tuple[str, str]]:
    return {row["benchmark"]: (row["action"], row["reason"]) for row in made["rows"]}


def test_the_queue_of_a_suite_is_what_its_dispatch_does(node: Any) -> None:
    node.start()
    words = ("--suite", "pair", "--models", "builtin", "--json")
    node.cli("pause", "--queue")
    (other,) = node.dispatch(only_datasets=["demo_choice"], limit=1)
    node.wait_for_state(other, "queued")  # from now on the keys of the checkpoint are known
    shown = json.loads(node.cli("queue", *words).stdout)
    done = json.loads(node.cli("dispatch", *words).stdout)
    assert done["plan"]["hash"] == shown["hash"]
    queued = [(row["benchmark"], row["kind"], row["rows"], row["samples"]) for row in shown["rows"]]
    assert sorted(queued) == [("demo_arith", "free_response", 3, 6), ("demo_choice", "multi_choice_plain", 3, 3)]
    jobs = [node.job(name) for name in done["jobs"]]
    assert [(job["benchmark"], job["kind"], job["total"]) for job in jobs] == [
        (benchmark, kind, samples) for benchmark, kind, _, samples in queued
    ]
    assert [job["generation_key"] for job in jobs] == [row["generation_key"] for row in shown["rows"]]


def test_the_settings_of_a_suite_win_over_standing_ones_even_of_the_model(node: Any) -> None:
    jobs = finished(node.start())
    assert jobs["demo_arith"]["settings"] == OF_BOTH
    assert (jobs["demo_arith"]["limit"], jobs["demo_arith"]["samples"]) == (3, 6)
    assert (jobs["demo_choice"]["limit"], jobs["demo_choice"]["samples"]) == (3, 3)
    assert node.job(jobs["demo_arith"]["job"])["score"]["partial"]
    (alone,) = node.dispatch(limit=1)
    (item,) = [item for item in logged(node) if item["job"] == alone]
    assert item["settings"] == {"k": "6", "seed": "9", "temperature": "0.5", "top_p": "0.5"}, "without the suite"


def test_the_selection_wins_over_its_suite(node: Any) -> None:
    jobs = finished(node.start(), limit=2, seed=4, settings={"k": "3"}, only_datasets=["demo_arith"])
    assert jobs.keys() == {"demo_arith"}
    assert jobs["demo_arith"]["settings"] == OF_BOTH | {"k": "3", "seed": "4"}
    assert (jobs["demo_arith"]["limit"], jobs["demo_arith"]["samples"]) == (2, 6)


def test_what_is_queued_or_done_of_a_suite_is_not_queued_again(node: Any) -> None:
    node.start().cli("pause", "--queue")
    jobs = dispatch(node)
    assert len(jobs) == 2
    assert dispatch(node) == []
    assert set(actions(plan(node)).values()) == {("skip", "queued")}
    node.cli("resume", "--queue")
    for job in jobs:
        node.wait_for_state(job, "done")
    assert dispatch(node) == []
    assert set(actions(plan(node)).values()) == {("skip", "done")}
    same = {"limit": 3, "seed": 7, "settings": {"k": "2"}}
    assert actions(plan(node, suite="", only_datasets=["demo_arith"], **same)) == {"demo_arith": ("skip", "done")}


def test_a_job_whose_checkpoint_is_not_hashed_yet_is_known_as_one_of_the_suite(node: Any) -> None:
    node.add_model("mine")
    node.start().cli("pause", "--queue")
    first = dispatch(node, models=["mine"])
    assert len(first) == 2
    assert dispatch(node, models=["mine"]) == []


def test_a_changed_suite_is_other_work_from_the_reload_on_and_earlier_jobs_keep_theirs(node: Any) -> None:
    before = finished(node.start())
    key = node.job(before["demo_arith"]["job"])["generation_key"]
    write(node, STANDING + PAIR.replace("k = 2", "k = 1").replace("limit = 3", "limit = 4"))
    assert set(actions(plan(node)).values()) == {("skip", "done")}, "a change is in force after a reload"
    assert "benchmarks" in node.api.post("/v1/reload", {}).value["changed"][0]
    after = finished(node)
    assert (after["demo_arith"]["settings"]["k"], after["demo_arith"]["limit"]) == ("1", 4)
    assert after["demo_choice"]["limit"] == 4
    kept = {item["job"]: item for item in logged(node)}[before["demo_arith"]["job"]]
    assert kept == before["demo_arith"]
    assert node.job(kept["job"])["generation_key"] == key
    repeated = node.api.get(f"/v1/jobs/{kept['job']}/repro").value
    assert repeated["same"], repeated["differs"]
    assert "k=2" in repeated["argv"]


def test_a_suite_that_is_gone_is_refused_with_those_that_exist(node: Any) -> None:
    node.start()
    assert str(refused(node, suite="nightly")) == "--suite: there is no suite nightly; there are other, pair."
    write(node, STANDING + OTHER)
    node.api.post("/v1/reload", {})
    assert (error := refused(node)).exit_code == 2
    assert str(error) == "--suite: there is no suite pair; there are other."
    assert [item["name"] for item in node.api.get("/v1/suites").value["items"]] == ["other"]
    write(node, STANDING)
    node.api.post("/v1/reload", {})
    assert "there are none; benchmarks.toml defines them as [suites.NAME]." in str(refused(node))
    assert logged(node) == []


def test_a_mistake_in_a_suite_changes_nothing(node: Any) -> None:
    node.start()
    write(node, STANDING + PAIR.replace("limit = 3", "limit = 0"))
    with pytest.raises(RefusedError, match=r"benchmarks\.toml:14: suite pair: limit must be at least 1, not 0"):
        node.api.post("/v1/reload", {})
    assert {row["rows"] for row in plan(node)["rows"]} == {3}


def test_suites_are_listed_with_what_they_measure_here(node: Any) -> None:
    pair, other = node.start().api.get("/v1/suites").value["items"]
    assert (pair["name"], pair["description"], pair["limit"]) == ("pair", "both", 3)
    kinds = {one["benchmark"]: one for one in pair["kinds"]}
    assert kinds["demo_arith"] == {
        "benchmark": "demo_arith", "kind": "free_response", "rows": 3,
        "settings": {"k": "2", "seed": "7", "temperature": "0.5"},
    }  # fmt: skip
    assert (kinds["demo_choice"]["rows"], kinds["demo_choice"].get("settings", {})) == (3, {})
    assert "rows" not in {one["benchmark"]: one for one in other["kinds"]}["gsm8k"], "they are not prepared"
    assert "1 benchmark without rows: `rwkvctl data prepare gsm8k`" in node.cli("suites", "other").stderr


def test_settings_of_a_suite_that_leave_no_row_are_not_mended_by_preparing_rows(node: Any) -> None:
    write(node, PAIR + 'where = "level=3"\n')
    shown = node.start().cli("suites", "pair", "-o", "table")
    assert "no field 'level'" in shown.stdout + shown.stderr
    assert "data prepare demo_arith" not in shown.stderr


def test_a_suite_whose_own_rows_were_taken_away_says_so_and_is_refused(node: Any, tmp_path: Path) -> None:
    (tmp_path / "sums.jsonl").write_text('{"question": "1+0?", "answer": "1"}\n')
    node.start().cli("data", "own", str(tmp_path / "sums.jsonl"))
    write(node, '[suites.pair]\nbenchmarks = ["own_sums", "demo_choice"]\n')
    node.api.post("/v1/reload", {})
    assert actions(plan(node)).keys() == {"own_sums", "demo_choice"}
    (node.home / "data" / "own_sums").rename(tmp_path / "away")
    said = "--suite pair: there is no own_sums any more."
    assert node.api.get("/v1/suites").value["items"][0]["problem"] == said
    assert str(refused(node)) == said


def test_suite_and_note_are_in_the_job_log_and_survive_a_restore_and_a_rebuild(node: Any, tmp_path: Path) -> None:
    of_suite = finished(node.start(), note="before | the change")
    (alone,) = node.dispatch(limit=1)
    node.wait_for_state(alone, "done")
    names = {item["job"] for item in of_suite.values()}

    def told() -> dict[str, tuple[str, str]]:
        assert {item["job"] for item in logged(node, suite="pair")} == names
        assert logged(node, suite="pai") == []
        return {item["job"]: (item.get("suite", ""), item.get("note", "")) for item in logged(node)}

    expected = dict.fromkeys(names, ("pair", "before | the change")) | {alone: ("", "")}
    assert told() == expected
    lines = node.cli("job-log", "--suite", "pair").stdout.splitlines()
    assert len(lines) == 1 + len(names)
    assert all("before | the change" in line for line in lines[1:])
    assert "before \\| the change" in node.cli("job-log", "--format", "markdown", "--limit", "3").stdout
    node.cli("backup", str(tmp_path / "backup"))
    node.terminate()
    node.cli("restore", str(tmp_path / "backup"), "--yes")
    node.start()
    assert told() == expected
    node.terminate()
    assert json.loads(node.cli("rebuild", "--yes", "--json").stdout)["problems"] == []
    node.start()
    assert told() == expected


def test_a_note_may_have_five_hundred_characters_and_no_more(node: Any) -> None:
    node.start().cli("pause", "--queue")
    assert "`note` may have 500 characters; there are 501." in str(refused(node, note="x" * 501))
    assert logged(node) == []
    dispatch(node, note="x" * 500)
    assert {item["note"] for item in logged(node)} == {"x" * 500}


def test_a_watch_measures_its_suite_as_it_is_when_a_checkpoint_is_queued(node: Any, tmp_path: Path) -> None:
    run = TrainingRun(tmp_path / "runs" / "g1x")
    node.start().cli("watch", "add", str(run.folder), "--settle", "1", "--policy", "all", "--suite", "pair")
    (watch,) = node.api.get("/v1/watches").value["items"]
    assert watch["selection"] == {"suite": "pair"}
    assert "suite pair" in node.cli("watch", "show", "w1", "-o", "table").stdout
    run.write("rwkv-1.pth")
    node.until(lambda: len(logged(node, suite="pair")) == 2, "the suite is queued")
    assert {item["limit"] for item in logged(node)} == {3}
    write(node, STANDING + PAIR.replace("limit = 3", "limit = 4"))
    node.api.post("/v1/reload", {})
    run.write("rwkv-2.pth")
    node.until(lambda: len(logged(node, suite="pair")) == 4, "the next checkpoint is queued")
    assert {item["limit"] for item in logged(node) if item["model"] == "g1x-rwkv-2"} == {4}


def test_a_watch_says_which_benchmarks_of_its_suite_have_no_rows(node: Any, tmp_path: Path) -> None:
    run = TrainingRun(tmp_path / "runs" / "g1x")
    words = ("watch", "add", str(run.folder), "--settle", "1", "--policy", "all", "--suite")
    added = node.start().cli(*words, "other", "--check", "--json")
    assert json.loads(added.stdout)["notes"] == [
        "No rows, so not measured: gsm8k. `rwkvctl data prepare gsm8k` fetches them."
    ]
    assert node.api.get("/v1/watches").value["items"] == []
    unknown = node.cli(*words, "nightly", check=False)
    assert unknown.returncode == 2
    assert "there is no suite nightly; there are other, pair." in unknown.stderr


def test_a_watch_of_a_suite_that_names_no_benchmarks_lists_none_without_rows(node: Any, tmp_path: Path) -> None:
    run = TrainingRun(tmp_path / "runs" / "g1x")
    write(node, "[suites.all]\nlimit = 5\n")
    added = node.start().cli("watch", "add", str(run.folder), "--suite", "all", "--check", "--json")
    assert json.loads(added.stdout)["notes"] == [], "as of a watch without flags, which means the same benchmarks"


def test_a_checkpoint_says_what_of_the_suite_of_its_watch_was_left_out(node: Any, tmp_path: Path) -> None:
    run = TrainingRun(tmp_path / "runs" / "g1x")
    node.start().cli("watch", "add", str(run.folder), "--settle", "1", "--policy", "all", "--suite", "other")
    run.write("rwkv-1.pth")

    def ended() -> Any:
        return [one for one in node.api.get("/v1/watches/w1").value["items"] if one["state"] == "done"]

    (checkpoint,) = node.until(ended, "it is measured")
    assert "left out: " in checkpoint["reason"]
    assert "gsm8k" in checkpoint["reason"]


OWN_FILE = """
from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Grade, Grader, Kind, Stage, by_name
from rwkv_data.profiles.param_search import param_search
from rwkvctl.protocol.engine import Sampling


def grade(row, answer):
    return Grade(1.0, "", row["answer"], "right", "")


ASK = Kind(name="free_response", profile="p", profile_version=1, grader=Grader.of("own", "1", grade),
           stages=(Stage(name="answer", mode="generate", prompt=lambda row: f"What is {row['question']}",
                         sampling=Sampling(max_tokens=4)),))
BENCHMARK = Benchmark(
    name="graded", version=1, domain="free_response", title="graded", licence="your own", split="test", rows=0,
    check_row=rows.check_question, local_files=("*.jsonl",), kinds=by_name([ASK, param_search(ASK)]),
    examples=(Example({"question": "q", "answer": "1"}, Answer("1"), 1.0),),
)
"""
SEARCHING = """
[suites.pair]
benchmarks = ["demo_choice", "graded"]
[suites.pair.search]
models = ["*g1*", "nothing*"]
newest = true
"""


def test_settings_are_searched_for_of_the_named_models_alone_and_pages_agree_with_the_plan(node: Any) -> None:
    (folder(node) / "benchmarks").mkdir()
    (folder(node) / "benchmarks" / "graded.py").write_text(OWN_FILE)
    write(node, SEARCHING)
    old, new = "rwkv7-g1a-0.1b-20250101-ctx4096", "rwkv7-g1b-0.1b-20250201-ctx4096"
    models = [node.add_model(name).stem for name in (old, new, "mine")]
    node.start()
    chosen = {"models": [], "hold_missing": True}
    rows = plan(node, **chosen)["rows"]
    found = {(row["model"], row["benchmark"], row["kind"]) for row in rows}
    assert len(found) == len(rows)
    measured = {("demo_choice", "multi_choice_plain"), ("graded", "free_response")}
    assert found == {(model, *kind) for model in models for kind in measured} | {
        (new, "graded", "param_search_free_response")
    }
    paged = []
    for after in range(0, len(rows), 2):
        asked = {"selection": {"suite": "pair", **chosen}, "limit": 2, "after": after}
        paged += node.api.post("/v1/plan", asked).value["rows"]
    places = [[(row["model"], row["benchmark"], row["kind"]) for row in some] for some in (paged, rows)]
    assert places[0] == places[1]
    assert actions(plan(node, models=["mine"], only_jobs=["param_search_free_response"])) == {}
