"""Jobs that need a judge, grading again, and searches: a benchmark of the operator's own, a judge on loopback."""

import json

import fake_judge
import pytest

OWN = """
from dataclasses import replace

from rwkv_data.benchmark import by_name
from rwkv_data.benchmarks.demo_arith import BENCHMARK as SUMS
from rwkv_data.graders.judged import judged
from rwkv_data.graders.text import EXACT
from rwkv_data.judges import rule
from rwkv_data.definition.sampling_search import Search

PLAIN = SUMS.default_kind
GRADER = replace(judged(EXACT, rule("rwkv-skills-v1")), version={version!r})
SEARCH = Search(stage="answer", grid={{"temperature": ("0", "1", "1000"), "top_p": ("1",)}}, rungs=(8, 16), keep=1.0)
BENCHMARK = replace(
    SUMS,
    name="judged_sums",
    kinds=by_name([
        replace(PLAIN, name="free_response_judge", grader=GRADER),
        replace(PLAIN, name="param_search_free_response", search=SEARCH, repeats=3, part="search", default=False),
        PLAIN,
    ]),
)
"""


@pytest.fixture
def judge():
    with fake_judge.in_thread(fake_judge.FakeJudge()) as fake:
        yield fake


@pytest.fixture
def configured(new_node, judge, tmp_path):
    """A node with the benchmark and the judge, not started yet. Its stub engine answers nothing right, so that the
    judge is asked about every sample."""
    folder = tmp_path / "config" / "rwkvctl"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "judged_sums.py").write_text(OWN.format(version="1"))
    node = new_node()
    node.settings |= {
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "JUDGE_MODEL": "fake-judge-1",
        "JUDGE_BASE_URL": judge.url,
        "JUDGE_API_KEY": "k" * 20,
        "CHECKER_MODEL": "fake-judge-1",
    }
    if not node.real_engine:
        node.engines_do(texts={"=": "none"})
    return node


@pytest.fixture
def own(configured):
    """The `configured` node, started."""
    return configured.start()


CHECK = json.dumps(
    {
        "checker_cot": "", "answer_correct": True, "instruction_following_error": False, "world_knowledge_error": False,
        "math_error": True, "reasoning_logic_error": False, "thought_contains_correct_answer": False, "reason": "close",
    }
)  # fmt: skip


def test_a_paused_judge_is_asked_nothing_not_even_after_a_restart(own, judge):
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "True")
    said = own.cli("pause", "--judge", "--reason", "who pays?").stdout
    assert "judge" in said
    wanted = {"only_datasets": ["judged_sums"], "only_jobs": ["free_response_judge"]}
    (name,) = own.dispatch(**wanted, limit=12)
    own.wait_for_state(name, "judging")
    own.kill()
    own.start()
    own.until(lambda: waiting(own) > 0, "the judge has been given something to do")
    assert judge.asked == []
    assert own.job(name)["state"] == "judging"
    assert "the judge is paused by" in own.cli("judge").stdout
    assert "who pays?" in own.cli("status").stderr
    own.cli("resume", "--judge")
    assert own.wait_for_state(name, "done")["score"]["scored"] == 12
    assert judge.asked


def waiting(node):
    """How many samples the judge has been given and has not answered for."""
    return sum(
        job.get("waiting", 0) for one in node.api.get("/v1/judge").value["judges"] for job in one.get("jobs", ())
    )


def test_a_job_waits_for_its_judge_and_gets_a_score_with_it(own, judge):
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "True")
    (name,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response_judge"], limit=12)
    job = own.wait_for_state(name, "done", "failed")
    score = job["score"]
    assert score["n"] == score["scored"] == 12
    assert "unjudged" not in score
    asked = [sample for sample in own.samples(name) if sample["judge"]]
    assert len(asked) == 12
    assert all(sample["value"] == 1.0 and sample["judge"]["model"] == "fake-judge-1" for sample in asked)
    known = score["provenance"]["judge"]
    assert known["rule"].startswith("rwkv-skills-v1")
    assert "fake-judge-1" in known["calibration"]
    assert (own.home / "runs" / name / "verdicts.jsonl").stat().st_size
    assert "k" * 20 not in (own.home.parent / "daemon.log").read_text()
    assert "fake-judge-1" in own.cli("judge", "--output", "tsv").stdout


def test_an_outage_parks_the_job_and_a_restart_pays_nothing_twice(own, judge):
    judge.behave = lambda _: fake_judge.Do("down", status=503)
    (name,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response_judge"], limit=8)
    own.wait_for_state(name, "judging")
    assert not own.api.get("/v1/status").value["engines"][0].get("jobs")
    own.kill()
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "False")
    own.start()
    first = own.wait_for_state(name, "done")
    assert first["score"]["metrics"][first["score"]["primary"]]["value"] is not None
    assert "unjudged" not in first["score"]


def test_a_job_that_waits_for_its_judge_can_be_paused_and_goes_on_there(own, judge):
    judge.behave = lambda _: fake_judge.Do("down", status=503)
    (name,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response_judge"], limit=8)
    own.wait_for_state(name, "judging")
    (item,) = own.api.post("/v1/pause", {"jobs": [name], "why": "the judge costs too much"}).value["items"]
    assert (item["state"], item["changed"]) == ("paused", True)
    own.kill()
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "False")
    own.start()
    assert own.job(name)["state"] == "paused"
    assert own.job(name)["detail"] == "the judge costs too much"
    own.api.post("/v1/resume", {"jobs": [name]})
    job = own.wait_for_state(name, "done", "failed")
    assert (job["score"]["scored"], job["attempt"]) == (8, 1)


def test_judging_that_fails_every_time_fails_its_job_and_a_retry_asks_again(configured, judge, tmp_path):
    own = configured
    own.settings["RWKVCTL_MAX_RESTARTS"] = "0"
    own.start()
    judge.behave = lambda _: fake_judge.Do("down", status=503)
    (name,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response_judge"], limit=8)
    own.wait_for_state(name, "judging")
    own.terminate()
    benchmark = tmp_path / "config" / "rwkvctl" / "benchmarks" / "judged_sums.py"
    benchmark.rename(benchmark.with_suffix(".away"))
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "False")
    own.start()
    job = own.wait_for_state(name, "failed", "done")
    assert (job["state"], job["failure"]) == ("failed", "judge")
    assert f"rwkvctl retry {name}" in job["detail"]
    own.terminate()
    benchmark.with_suffix(".away").rename(benchmark)
    own.start()
    (item,) = own.api.post("/v1/resume", {"jobs": [name], "failed": True}).value["items"]
    assert item["state"] == "judging"
    assert own.wait_for_state(name, "done", "failed")["score"]["scored"] == 8


def test_what_was_judged_is_not_asked_again_after_a_rebuild(own, judge):
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "True")
    (name,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response_judge"], limit=8)
    own.wait_for_state(name, "done")
    before = [(s["row"], s["value"], s["judge"]) for s in own.samples(name)]
    own.terminate()
    (own.home / "store.sqlite").unlink()
    for kept in (own.home / "runs" / name).glob("score-*.json"):
        kept.unlink()
    asked = len(judge.asked)
    own.cli("rebuild")
    own.start()
    score = own.wait_for_state(name, "done")["score"]
    assert score["scored"] == 8
    assert [(s["row"], s["value"], s["judge"]) for s in own.samples(name)] == before
    assert len(judge.asked) == asked


def test_what_the_judge_cannot_do_holds_the_score_back_until_it_is_graded_again(own, judge):
    judge.behave = lambda _: fake_judge.Do("neither this nor that")
    (name,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response_judge"], limit=6)
    held = own.wait_for_state(name, "done")["score"]
    assert held["metrics"][held["primary"]]["value"] is None
    assert held["unjudged"] > 0
    assert "regrade" in held["why_null"]
    said = own.cli("judge", check=False)
    assert said.returncode == 1
    assert "contained no readable verdict" in said.stderr
    assert "contained no readable verdict" in own.cli("doctor", "--json", check=False).stdout
    assert "FAIL: no verdicts" in said.stderr
    own.cli("judge", "retry")
    assert own.cli("judge").returncode == 0
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "True")
    engines = len(own.api.get("/v1/status").value["engines"])
    assert "judging" in own.cli("regrade", name).stdout
    score = own.wait_for_state(name, "done", "failed")["score"]
    assert "unjudged" not in score
    assert score["metrics"][score["primary"]]["value"] == 1.0
    assert len(own.api.get("/v1/status").value["engines"]) == engines


def test_another_grader_stands_beside_the_old_one(own, tmp_path):
    (name,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response_judge"], limit=5)
    own.wait_for_state(name, "done")
    assert "done" in own.cli("regrade", name).stdout, "graded already: nothing to do, and no error"
    file = tmp_path / "config" / "rwkvctl" / "benchmarks" / "judged_sums.py"
    file.write_text(OWN.format(version="2"))
    own.terminate()
    own.start()
    lines = len(own.stage_lines(name))
    own.cli("regrade", name)
    job = own.wait_for_state(name, "done")
    assert job["score"]["provenance"]["grader_version"] == "2"
    assert len(own.stage_lines(name)) == lines, "nothing was generated again"
    every = own.api.get("/v1/scores", all_versions=True).value["items"]
    assert [item["provenance"]["grader_version"] for item in every] == ["2", "1"]
    (newest,) = own.api.get("/v1/scores").value["items"]
    assert newest["provenance"]["grader_version"] == "2"


HELD = """
import contextlib, itertools, pathlib, time

@contextlib.contextmanager
def held(**options):
    count = itertools.count()
    def waits(row, answer):
        while next(count) >= 5 and not pathlib.Path({go!r}).exists():
            time.sleep(0.02)
        return grade(row, answer)
    with EXACT.open(**options) as grade:
        yield waits
"""
"""A grader that grades five answers, and the others when there is a file."""


def test_grading_again_can_be_stopped_and_what_cannot_be_done_leaves_the_old_grade(own, judge, tmp_path):
    judge.behave = lambda _: fake_judge.Do("False")  # no more than what the second version finds without a judge
    own.engines_do()
    (name,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response_judge"], limit=20)
    first = own.wait_for_state(name, "done")["score"]["metrics"]
    file = tmp_path / "config" / "rwkvctl" / "benchmarks" / "judged_sums.py"
    go = tmp_path / "go"
    text = OWN.format(version="2").replace("PLAIN =", HELD.format(go=str(go)) + "PLAIN =")
    file.write_text(text.replace("version='2'", "version='2', open=held"))
    own.terminate()
    own.start()
    own.cli("regrade", name)
    own.until(lambda: 0 < own.job(name).get("done", 0) < 20, "some are graded again")
    own.cli("stop", name)
    own.wait_for_state(name, "stopped")
    go.touch()
    own.cli("resume", name)
    again = own.wait_for_state(name, "done", "failed")
    assert again["score"]["provenance"]["grader_version"] == "2"
    assert again["score"]["metrics"] == first

    file.write_text(OWN.format(version="3"))
    own.terminate()
    own.start()
    file.write_text(OWN.format(version="4"))  # not what the daemon has read: a runner refuses it
    own.cli("regrade", name)
    own.until(lambda: "grading again failed" in own.job(name).get("detail", ""), "it is given up")
    job = own.job(name)
    assert job["state"] == "done"
    assert job["done"] == 20
    assert job["score"]["provenance"]["grader_version"] == "2"


def test_wrong_answers_go_to_the_checker_and_onto_the_review_list(own, judge):
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "False")
    (name,) = own.dispatch(only_datasets=["demo_arith"], limit=10)
    own.wait_for_state(name, "done")
    wrong = sorted(sample["number"] for sample in own.samples(name) if sample["value"] == 0)

    def listed():
        return [item["sample"] for item in own.api.get("/v1/review", job=name).value["items"]]

    assert len(wrong) == 10
    own.until(lambda: listed() == wrong, "the checker has looked at every wrong answer")
    own.cli("review", "mark", str(wrong[0]), "right")
    assert listed() == wrong[1:]
    assert "arithmetic" in own.cli("review", "--job", name, "--output", "tsv").stdout
    (skipped,) = own.dispatch(only_datasets=["demo_arith"], limit=4, disable_checker=True)
    own.wait_for_state(skipped, "done")
    assert own.api.get("/v1/review", job=skipped, every=True).value["items"] == []


@pytest.mark.real_engine
def test_a_search_drops_bad_points_early_and_its_best_is_measured_on_other_rows(own):
    (name,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["param_search_free_response"])
    job = own.wait_for_state(name, "done", "failed")
    points = job["score"]["provenance"]["search"]["points"]
    assert points[0]["rows"] == 120
    assert points[2]["rows"] < 120, "temperature 1000 cannot win"
    assert any("part=report" in line for line in job["score"]["warnings"])
    chosen = own.api.post("/v1/search/select", {"model": job["model"], "dispatch": True}).value
    assert chosen["settings"]["answer.temperature"] in {"0", "1"}
    (measured,) = chosen["jobs"]
    score = own.wait_for_state(measured, "done")["score"]
    assert score["n"] == 180
    assert score["metrics"]["accuracy"]["value"] > 0.5
    assert name in own.cli("search", "select", job["model"], "--output", "tsv").stdout


def test_a_second_grade_takes_over_the_completions_of_the_first(own, judge):
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "True")
    (plain,) = own.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response"], limit=12)
    own.wait_for_state(plain, "done")
    (judged,) = own.dispatch(only_datasets=["judged_sums"], limit=12)
    job = own.wait_for_state(judged, "done", "failed")
    assert (job["kind"], job["score"]["scored"]) == ("free_response_judge", 12)
    assert job["score"]["provenance"]["completions_of"] == plain
    assert own.answers_of(judged) == own.answers_of(plain)
    assert job["score"]["provenance"]["generation_key"] == own.job(plain)["score"]["provenance"]["generation_key"]
    (anew,) = own.dispatch(only_datasets=["judged_sums"], limit=12, overwrite=True)
    assert "completions_of" not in own.wait_for_state(anew, "done")["score"]["provenance"]


def test_a_second_grade_waits_for_the_completions_of_the_first_and_survives_a_rebuild(own, judge):
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "True")
    own.engines_do(answers=3, texts={"=": "none"})
    both = {"only_datasets": ["judged_sums"], "only_jobs": ["free_response", "free_response_judge"]}
    first, second = sorted(own.dispatch(**both, limit=12))
    own.until(lambda: "generates the same" in own.job(second).get("detail", ""), "it says what it waits for")
    own.engines_do(texts={"=": "none"})
    one, other = (own.wait_for_state(name, "done", "failed") for name in (first, second))
    assert [one["state"], other["state"]] == ["done", "done"]
    assert other["score"]["provenance"]["completions_of"] == first
    assert own.stage_lines(first) == own.stage_lines(second)
    assert own.answers_of(first) == own.answers_of(second)
    own.terminate()
    (own.home / "store.sqlite").unlink()
    own.cli("rebuild")
    own.start()
    assert own.wait_for_state(second, "done")["score"]["scored"] == 12
    assert own.answers_of(first) == own.answers_of(second)


def test_nothing_is_checked_unless_a_setting_asks_for_it(configured, judge):
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "False")
    own = configured
    del own.settings["CHECKER_MODEL"]
    own.start()
    (name,) = own.dispatch(only_datasets=["demo_arith"], limit=4)
    assert own.wait_for_state(name, "done")["state"] == "done"
    assert [one["role"] for one in own.api.get("/v1/judge").value["judges"]] == ["judge"]
    own.terminate()
    own.settings["RWKVCTL_CHECKER"] = "true"
    own.start()
    assert judge.asked == []
    (asked,) = own.dispatch(only_datasets=["demo_arith"], limit=4, overwrite=True)
    own.wait_for_state(asked, "done")
    own.until(lambda: len(own.api.get("/v1/review", job=asked).value["items"]) == 4, "the checker has looked")
    assert own.api.get("/v1/review", job=name, every=True).value["items"] == []


def test_calls_of_the_judge_and_the_checker_are_said_before_they_are_made(own, judge):
    judge.behave = lambda asked: fake_judge.Do(CHECK if "checker_cot" in asked.prompt else "True")
    flags = ("--models", "builtin", "--only-datasets", "judged_sums", "--limit", "12")
    assert "price not set; no budget" in own.cli("queue", *flags).stderr
    first, second = own.api.post("/v1/plan", {"selection": SELECTION}).value["paid"]
    assert (first["role"], first["calls"], first["calls_most"]) == ("judge", 12, 36)
    assert (second["role"], second["calls"]) == ("checker", 12)
    assert "measured" not in first
    assert "cost" not in first
    assert judge.asked == []
    dispatched = own.cli("dispatch", *flags, "--wait").stderr
    assert "judge fake-judge-1: about 12 calls (at most 36)" in dispatched
    (again,) = [
        one
        for one in own.api.post("/v1/plan", {"selection": SELECTION | {"overwrite": True}}).value["paid"]
        if one["role"] == "judge"
    ]
    assert again["measured"]
    assert again["tokens"] < first["tokens"]


SELECTION = {"models": ["builtin"], "only_datasets": ["judged_sums"], "limit": 12}
