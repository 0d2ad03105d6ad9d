"""Jobs of models behind endpoints: a server on loopback that is asked, is away, changes, and is paid once."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import fake_judge
import pytest

SUM = re.compile(r"(\d+)\+(\d+)=")
TWO_STAGES = """
from dataclasses import replace

from rwkv_data.benchmark import by_name
from rwkv_data.benchmarks.demo_arith import BENCHMARK as SUMS

PLAIN = SUMS.default_kind
THINK = replace(PLAIN.stages[0], name="cot", prompt=lambda row: f"Think about {row['question']}", user=None)
SAY = replace(PLAIN.stages[0], name="final", prompt=lambda row: " So it is ", user=None)
BENCHMARK = replace(SUMS, name="own_sums", kinds=by_name([replace(PLAIN, stages=(THINK, SAY))]))
"""
"""A benchmark whose answer follows a thought."""

OWN = """
from dataclasses import replace

from rwkv_data.benchmark import by_name
from rwkv_data.benchmarks.demo_arith import BENCHMARK as SUMS

PLAIN = SUMS.default_kind
GRADED = replace(PLAIN, grader=replace(PLAIN.grader, version="{version}"))
BENCHMARK = replace(SUMS, name="own_sums", kinds=by_name([GRADED]))
"""
"""A benchmark of the operator's own, whose grader has a version."""

USUAL = {"models": ["teacher"], "only_datasets": ["demo_arith"]}


def answers(asked):
    """The sum that is asked for; a number in words for a probe."""
    text = asked.document.get("prompt") or asked.prompt
    found = SUM.search(text)
    return fake_judge.Do(str(int(found[1]) + int(found[2])) if found else "seven, eight")


@pytest.fixture
def server() -> Iterator["fake_judge.FakeJudge"]:
    with fake_judge.in_thread(fake_judge.FakeJudge(behave=answers)) as fake:
        yield fake


@pytest.fixture
def unstarted(new_node, server, tmp_path):
    """A node whose configuration has the endpoint `teacher`."""
    node = new_node()
    node.settings |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    configure(node, server)
    return node


@pytest.fixture
def own(unstarted):
    return unstarted.start()


def configure(node, server, **changes):
    """Write the table of the endpoint, with two keys."""
    folder = Path(node.settings["XDG_CONFIG_HOME"]) / "rwkvctl"
    folder.mkdir(parents=True, exist_ok=True)
    keys = folder / "keys"
    keys.write_text("secret-key-one\nsecret-key-two\n")
    keys.chmod(0o600)
    table = {"base_url": server.url, "model": "fake", "revision": "r1", "keys_file": str(keys)} | changes
    lines = [f"{name} = {json.dumps(value)}" for name, value in table.items()]
    (folder / "config.toml").write_text("\n".join(["[endpoints.teacher]", *lines, ""]))


def questions(server):
    """The sums that the server was asked for, and how often each."""
    return Counter(found[0] for asked in server.asked if (found := SUM.search(asked.prompt)))


def value(job):
    """The headline of a job's score."""
    return job["score"]["metrics"][job["score"]["primary"]]["value"]


def test_a_job_gets_a_score_that_names_its_server_and_each_sum_is_asked_once(own, server):
    (name,) = own.dispatch(**USUAL, limit=40)
    job = own.wait_for_state(name, "done", "failed")
    score = job["score"]
    assert (score["n"], score["scored"], value(job)) == (40, 40, 1.0)
    assert (job["model"], job["numerics"], job["weights"]) == ("teacher", "chat", "endpoint:teacher")
    known = score["provenance"]["endpoint"]
    assert (known["base_url"], known["model"], known["revision"], known["api"]) == (server.url, "fake", "r1", "chat")
    assert set(known["features"]) >= {"stop", "n", "seed", "usage"}
    assert known["stages"]["answer"]["api"] == "chat"
    assert set(questions(server).values()) == {1}
    assert len(questions(server)) == 40
    assert {asked.key for asked in server.asked} == {"secret-key-one", "secret-key-two"}
    assert not own.api.get("/v1/status").value["engines"]


def test_it_is_a_model_like_others_and_its_keys_are_nowhere(own, server):
    (name,) = own.dispatch(**USUAL, limit=8)
    own.wait_for_state(name, "done")
    models = {item["name"]: item for item in own.api.get("/v1/models").value["items"]}
    assert models["teacher"]["api"] == "chat"
    (endpoint,) = own.api.get("/v1/endpoints").value["items"]
    assert endpoint["identity"] == models["teacher"]["sha256"] == own.job(name)["score"]["provenance"]["weights_sha256"]
    assert endpoint["service"]["usage"]["prompt_tokens"] > 0
    said = (
        own.cli("endpoints").stdout + own.cli("models").stdout + own.cli("scores").stdout + own.cli("show", name).stdout
    )
    assert "teacher" in said
    files = [path for path in own.home.rglob("*") if path.is_file()] + [own.home.parent / "daemon.log"]
    assert not [path for path in files if b"secret-key-" in path.read_bytes()]
    assert "secret-key" not in said


def test_the_same_work_is_not_done_again_but_another_revision_is_another_model(own, server):
    own.wait_for_state(*own.dispatch(**USUAL, limit=8), "done")
    asked = len(server.asked)
    plan = own.api.post("/v1/plan", {"selection": USUAL | {"limit": 8}}).value
    assert [row["reason"] for row in plan["rows"]] == ["done"]
    configure(own, server, revision="r2")
    assert "endpoints: teacher" in str(own.api.post("/v1/reload", {}).value["changed"])
    own.wait_for_state(*own.dispatch(**USUAL, limit=8), "done")
    assert len(server.asked) > asked


def test_the_command_that_repeats_a_job_names_its_endpoint_and_says_if_it_is_another_model_now(own, server):
    (name,) = own.dispatch(**USUAL, limit=3)
    own.wait_for_state(name, "done")
    found = own.api.get(f"/v1/jobs/{name}/repro").value
    assert (found["same"], found["differs"]) == (True, [])
    assert found["argv"][:4] == ["rwkvctl", "dispatch", "--models", "endpoint:teacher"]
    assert "--numerics" not in found["argv"]
    plan = own.api.post("/v1/plan", {"selection": found["selection"]}).value
    assert [(row["model"], row["action"]) for row in plan["rows"]] == [("teacher", "run")]
    configure(own, server, revision="r2")
    own.api.post("/v1/reload", {})
    (differs,) = own.api.get(f"/v1/jobs/{name}/repro").value["differs"]
    assert differs.startswith("[endpoints.teacher] is another model now")
    (Path(own.settings["XDG_CONFIG_HOME"]) / "rwkvctl" / "config.toml").write_text("")
    own.api.post("/v1/reload", {})
    (differs,) = own.api.get(f"/v1/jobs/{name}/repro").value["differs"]
    assert "endpoint:teacher" in differs


def test_without_being_named_it_is_not_measured(own, server):
    plan = own.api.post("/v1/plan", {"selection": {"only_datasets": ["demo_arith"]}}).value
    assert "teacher" not in {row["model"] for row in plan["rows"]}
    assert server.asked == []


def test_what_a_chat_server_cannot_be_asked_is_refused_with_the_kinds_to_name(own, server):
    plan = own.api.post("/v1/plan", {"selection": {"models": ["teacher"], "only_datasets": ["demo_choice"]}}).value
    (row,) = plan["rows"]
    assert (row["action"], row["reason"]) == ("skip", "endpoint-cannot")
    assert "free_response.chat" in row["detail"]
    assert server.asked == []


def test_a_plan_says_what_it_would_cost(unstarted, server):
    configure(unstarted, server, completion_price=1_000_000.0, budget=1e9)
    own = unstarted.start()
    (paid,) = own.api.post("/v1/plan", {"selection": USUAL | {"limit": 10}}).value["paid"]
    assert (paid["role"], paid["model"], paid["calls"]) == ("endpoint", "teacher", 10)
    assert paid["cost"] == 10 * 8  # the limit of a reply, as none has come yet
    assert paid["budget_left"] == 1e9


def test_an_outage_makes_the_job_wait_and_say_so_and_nothing_is_paid_twice(own, server):
    own.wait_for_state(*own.dispatch(**USUAL, limit=2), "done")
    up = {"yes": False}
    server.behave = lambda asked: answers(asked) if up["yes"] else fake_judge.Do("down", status=503)
    (name,) = own.dispatch(**USUAL, limit=20)
    # each at one look: the endpoint is tried again and again, and meanwhile the job does not wait
    away = own.until(
        lambda: (job := own.job(name)).get("reason") == "endpoint-away" and job,
        "the job says that its endpoint is away",
    )
    assert "outage" in away["detail"]
    own.until(lambda: re.search("endpoint-away|outage", own.cli("jobs").stdout), "`rwkvctl jobs` says it, too")
    up["yes"] = True
    job = own.wait_for_state(name, "done", "failed")
    assert value(job) == 1.0
    paid = Counter(f[0] for a in server.asked if a.answered_at and (f := SUM.search(a.prompt)))
    assert set(paid.values()) == {1}


def test_kill_9_of_the_daemon_pays_for_no_reply_again_that_had_come(own, server):
    held = {"back": True}

    def let_go(asked):
        return not held["back"] or len(questions(server)) <= 60 or not SUM.search(asked.prompt)

    server.behave = lambda asked: fake_judge.Do(answers(asked).text, until=lambda: let_go(asked))
    (name,) = own.dispatch(**USUAL, limit=150)
    own.until(lambda: len(questions(server)) > 60, "requests are held back")
    own.until(lambda: own.job(name).get("stages_done") == len(answered(server)), "what was answered is stored")
    before = answered(server)
    own.kill()
    held["back"] = False
    own.start()
    job = own.wait_for_state(name, "done", "failed")
    assert (job["score"]["n"], job["score"]["scored"], value(job)) == (150, 150, 1.0)
    assert len(before) >= 20
    assert {questions(server)[asked] for asked in before} == {1}


def answered(server):
    """The sums that the server has answered."""
    return {found[0] for asked in server.asked if asked.answered_at and (found := SUM.search(asked.prompt))}


def test_a_budget_makes_the_job_wait_until_it_is_raised(unstarted, server):
    configure(unstarted, server, budget_tokens=3000)
    own = unstarted.start()
    (name,) = own.dispatch(**USUAL, limit=200)
    own.until(lambda: "budget" in own.job(name).get("detail", ""), "the job says that the budget is used up")
    assert own.job(name)["done"] < 200
    configure(own, server, budget_tokens=10_000_000)
    own.api.post("/v1/reload", {})
    job = own.wait_for_state(name, "done", "failed")
    assert (job["state"], job["score"]["n"]) == ("done", 200)
    assert set(questions(server).values()) == {1}


def test_a_job_whose_table_is_gone_is_held_and_goes_on_when_it_is_back(own, server):
    held = {"back": True}
    server.behave = lambda asked: fake_judge.Do(
        answers(asked).text, until=lambda: not held["back"] or not SUM.search(asked.prompt)
    )
    (name,) = own.dispatch(**USUAL, limit=5)
    own.until(lambda: len(questions(server)) == 5, "the server is being asked")
    file = Path(own.settings["XDG_CONFIG_HOME"]) / "rwkvctl" / "config.toml"
    table = file.read_text()
    file.write_text("")
    own.api.post("/v1/reload", {})
    own.wait_for_state(name, "held")
    assert own.job(name)["reason"] == "endpoint-not-configured"
    assert "[endpoints.teacher]" in own.job(name)["detail"]
    file.write_text(table)
    own.api.post("/v1/reload", {})
    held["back"] = False
    assert own.wait_for_state(name, "done", "failed")["state"] == "done"
    assert set(questions(server).values()) == {1}  # what was in flight is used by the job that goes on


def test_stop_and_pause_leave_what_is_in_flight_to_the_job_that_goes_on(own, server):
    held = {"back": True}
    server.behave = lambda asked: fake_judge.Do(
        answers(asked).text, until=lambda: not held["back"] or len(questions(server)) < 6
    )
    (name,) = own.dispatch(**USUAL, limit=20)
    own.until(lambda: len(questions(server)) > 5, "some requests are in flight")
    own.cli("pause", name)
    own.wait_for_state(name, "paused")
    own.cli("resume", name)
    own.until(lambda: own.job(name)["state"] in {"starting", "generating"}, "it goes on")
    own.cli("stop", name, "--timeout", "60")
    own.wait_for_state(name, "stopped")
    held["back"] = False
    own.cli("resume", name)
    job = own.wait_for_state(name, "done", "failed")
    assert (job["score"]["n"], value(job)) == (20, 1.0)
    assert set(questions(server).values()) == {1}


def grader_version(job):
    """The version of the grader that gave a job's score; empty while it has none."""
    return job.get("score", {}).get("provenance", {}).get("grader_version", "")


def test_grading_again_asks_nothing_again(unstarted, server):
    file = Path(unstarted.settings["XDG_CONFIG_HOME"]) / "rwkvctl" / "benchmarks" / "own_sums.py"
    file.parent.mkdir()
    file.write_text(OWN.format(version="1"))
    own = unstarted.start()
    (name,) = own.dispatch(models=["teacher"], only_datasets=["own_sums"], limit=10)
    own.wait_for_state(name, "done", "failed")
    asked = len(server.asked)
    file.write_text(OWN.format(version="2"))
    own.api.post("/v1/reload", {})
    own.cli("regrade", name)
    own.until(lambda: grader_version(own.job(name)) == "2", "it is graded again")
    job = own.wait_for_state(name, "done", "failed")
    assert (job["score"]["scored"], value(job)) == (10, 1.0)
    assert job["score"]["provenance"]["endpoint"]["model"] == "fake"
    assert len(server.asked) == asked


def test_over_completions_it_gets_the_prompts_of_a_checkpoint_and_later_stages_as_one_text(unstarted, server):
    file = Path(unstarted.settings["XDG_CONFIG_HOME"]) / "rwkvctl" / "benchmarks" / "own_sums.py"
    file.parent.mkdir()
    file.write_text(TWO_STAGES)
    configure(unstarted, server, api="completions")
    own = unstarted.start()
    first, second = own.dispatch(models=["teacher"], only_datasets=["own_sums", "demo_arith"], limit=6)
    for name in (first, second):
        assert value(own.wait_for_state(name, "done", "failed")) == 1.0
    prompts = [asked.document["prompt"] for asked in server.asked if SUM.search(asked.document["prompt"])]
    assert {asked.route for asked in server.asked} == {"/v1/completions"}
    plain = [prompt for prompt in prompts if SUM.fullmatch(prompt)]
    thought = [prompt for prompt in prompts if prompt.startswith("Think about ")]
    final = [prompt for prompt in thought if prompt.endswith(" So it is ")]
    assert (len(plain), len(thought), len(final)) == (6, 12, 6)
    assert all(re.fullmatch(r"Think about (\d+)\+(\d+)=\d+ So it is ", prompt) for prompt in final)


def test_choices_are_compared_by_the_log_probabilities_of_the_echoed_prompt(unstarted, server):
    configure(unstarted, server, api="completions")
    own = unstarted.start()
    (name,) = own.dispatch(models=["teacher"], only_datasets=["demo_choice"], limit=5)
    job = own.wait_for_state(name, "done", "failed")
    assert (job["state"], job["score"]["scored"]) == ("done", 5)
    scored = [asked for asked in server.asked if asked.document.get("echo")]
    assert len(scored) > 5
    assert all(len(sample["stages"][0]["logprobs"]) > 1 for sample in own.samples(name))


def test_a_server_without_log_probabilities_is_refused_for_choices_when_it_is_dispatched(unstarted, server):
    server.behave = lambda asked: fake_judge.Do(answers(asked).text, echoes=False)
    configure(unstarted, server, api="completions")
    own = unstarted.start()
    found = own.cli("dispatch", "--models", "teacher", "--only-datasets", "demo_choice", "--yes", check=False)
    assert "compares log-probabilities, and teacher does not give them" in found.stdout + found.stderr
    assert not own.api.get("/v1/jobs").value["items"]
    assert "not for kinds that compare log-probabilities" in own.cli("endpoints").stderr


def test_a_server_that_is_away_when_it_is_needed_for_choices_holds_the_job_until_it_is_there(unstarted, server):
    up = {"yes": False}
    server.behave = lambda asked: answers(asked) if up["yes"] else fake_judge.Do("down", status=401)
    configure(unstarted, server, api="completions")
    own = unstarted.start()
    (name,) = own.dispatch(models=["teacher"], only_datasets=["demo_choice"], limit=3)
    assert (own.job(name)["state"], own.job(name)["reason"]) == ("held", "endpoint-away")
    up["yes"] = True
    own.cli("endpoints", "retry")
    assert own.wait_for_state(name, "done", "failed")["state"] == "done"


def test_a_server_that_hangs_keeps_no_other_from_being_asked(own, server):
    server.behave = lambda _: fake_judge.Do(hang=True)
    own.dispatch(**USUAL, limit=2)
    own.until(lambda: server.asked, "the server that hangs is being tried out")
    with fake_judge.in_thread(fake_judge.FakeJudge(behave=answers)) as quick:
        with (Path(own.settings["XDG_CONFIG_HOME"]) / "rwkvctl" / "config.toml").open("a") as file:
            file.write(f'[endpoints.quick]\nbase_url = "{quick.url}"\nmodel = "fake"\n')
        own.api.post("/v1/reload", {})
        (name,) = own.dispatch(models=["quick"], only_datasets=["demo_arith"], limit=2)
        assert value(own.wait_for_state(name, "done", "failed")) == 1.0
    problems = {one["name"]: one.get("problem", "") for one in own.api.get("/v1/endpoints").value["items"]}
    assert problems == {"teacher": "", "quick": ""}  # the one that hangs is still being tried out


def test_what_a_server_does_is_found_out_once_and_again_when_that_is_asked_for(own, server):
    own.wait_for_state(*own.dispatch(**USUAL, limit=2), "done")
    tried = len(trials(server))
    assert tried > 2
    own.kill()
    own.start()
    own.wait_for_state(*own.dispatch(**USUAL, limit=4), "done")
    assert len(trials(server)) == tried
    own.cli("endpoints", "retry")
    own.wait_for_state(*own.dispatch(**USUAL, limit=6), "done")
    assert len(trials(server)) > tried


def trials(server):
    """The requests by which it is found out what the server does."""
    return [asked for asked in server.asked if not SUM.search(asked.prompt)]


def test_a_teacher_and_its_student_are_compared_and_doctor_and_metrics_know_it(own, server):
    own.wait_for_state(*own.dispatch(**USUAL, limit=8), "done")
    own.wait_for_state(*own.dispatch(only_datasets=["demo_arith"], limit=8), "done")
    said = own.cli("compare", "builtin", "teacher").stdout
    assert "not comparable" not in said
    assert "demo_arith" in said
    assert "endpoint" in own.cli("doctor", check=False).stdout
    assert 'judge_tokens{role="endpoint:teacher"}' in own.cli("metrics").stdout
