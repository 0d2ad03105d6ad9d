"""Recipes that are paused on a live node: nothing is queued for them, and their jobs wait with them."""

import json
from concurrent.futures import ThreadPoolExecutor

import fake_judge
import pytest
from sums_recipes import PROBLEMS, change, prepare, shown

from rwkv_daemon.workers.run_directory import RunDir

pytestmark = pytest.mark.slow("recipes")

SUMS = dict(list(PROBLEMS.items())[:2])
SELECT = """
[[sample]]
models = ["builtin"]
datasets = ["own_sums"]
kinds = ["free_response.chat"]
settings = {{k = 1}}
seed = {seed}

[select]
rule = "all-correct"
"""
REWRITE = '[rewrite]\nrule = "thought-solution"\n'
ASIDE = "r1 is paused"


@pytest.fixture
def node(new_node, tmp_path):
    """A node with a training set, whose queue is paused: jobs wait until `work`."""
    found = new_node()
    found.settings |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    found.start()
    prepare(found, tmp_path, "sums", SUMS)
    answer(found)
    found.api.post("/v1/pause", {"queue": True})
    return found


def answer(node, **wanted):
    """Have every problem answered rightly."""
    node.engines_do(**wanted, texts={q[:30]: f" The answer is \\boxed{{{a}}}." for q, a in SUMS.items()})


def work(node):
    """Let jobs begin."""
    node.api.post("/v1/pause", {"queue": True, "off": True})


def run(node, text, name="sky.toml"):
    """Run a recipe; returns it."""
    return node.api.post("/v1/recipes", {"toml": text, "name": name}).value["recipe"]


def sampling(seed=1, more=""):
    return SELECT.format(seed=seed).replace("[select]", f"{more}[select]")


def named(*jobs):
    """A recipe of jobs that are there."""
    return f'jobs = {json.dumps(jobs)}\n[select]\nrule = "all-correct"\n'


def aside(node, job):
    """The state of a job, and what it says of why."""
    found = node.job(job)
    return found["state"], found.get("detail", "")


def why(node, job):
    """The state of a job with its reason."""
    found = node.job(job)
    return found["state"], found.get("reason", "")


def is_done(node, recipe="r1"):
    node.until(lambda: shown(node, recipe)["state"] == "done", f"the rows of {recipe} are made")


def test_a_recipe_is_paused_with_its_job_and_resumed_with_it(node):
    (job,) = run(node, sampling())["jobs"]
    paused = node.cli("recipe", "pause", "r1").stdout
    assert "paused" in paused
    assert shown(node)["detail"] == "`rwkvctl recipe resume r1` takes it up"
    assert aside(node, job) == ("paused", ASIDE)
    assert change(node, "pause")["state"] == "paused", "again is no error"
    work(node)
    (other,) = node.dispatch(limit=1)
    node.wait_for_state(other, "done")
    assert aside(node, job) == ("paused", ASIDE), "what was queued later has run, and this has not"
    node.cli("recipe", "resume", "r1")
    is_done(node)
    assert shown(node)["rows"] == 2
    refused = node.cli("recipe", "pause", "r1", check=False)
    assert (refused.returncode, "r1 is done" in refused.stderr) == (5, True)


def test_status_and_figures_count_recipes(node):
    for seed in (1, 2):
        run(node, sampling(seed))
    change(node, "pause")
    seen = node.api.get("/v1/status").value["recipes"]
    assert [(one["recipe"], one["name"], one["state"]) for one in seen] == [
        ("r1", "sky.toml", "paused"), ("r2", "sky.toml", "waiting"),
    ]  # fmt: skip
    table = node.cli("status", "-o", "table").stdout
    assert "recipes: 1 waiting, 1 paused" in table.splitlines()[0]
    assert "`rwkvctl recipe resume r1` takes it up" in table
    session = node.api.get("/v1/jobs").value["items"][0]["session"]
    alone = node.api.get("/v1/status", session=session).value
    assert not alone.get("recipes")
    assert not alone.get("recipe_counts")
    figures = {one["name"]: one for one in node.api.get("/v1/metrics").value["items"]}["rwkvctl_recipes"]["figures"]
    counted = {one["labels"]["state"]: one["value"] for one in figures}
    assert counted == {"waiting": 1, "making": 0, "paused": 1, "done": 0, "failed": 0, "stopped": 0}
    change(node, "stop", "r2")
    assert [one["recipe"] for one in node.api.get("/v1/status").value["recipes"]] == ["r1"]


def test_a_job_that_the_operator_has_put_aside_stays_so(node):
    jobs = [node.dispatch(only_datasets=["own_sums"], only_jobs=["free_response.chat"], seed=n)[0] for n in range(3)]
    paused, held, _ = jobs
    node.cli("pause", paused, "--reason", "lunch")
    node.cli("hold", held, "--reason", "later")
    run(node, named(*jobs))
    change(node, "pause")
    assert [aside(node, one) for one in jobs] == [("paused", "lunch"), ("held", "later"), ("paused", ASIDE)]
    change(node, "resume")
    assert [aside(node, one)[0] for one in jobs] == ["paused", "held", "queued"]
    node.until(lambda: shown(node).get("detail", "").startswith(f"{paused} is paused (lunch)"), "it says what to do")


def test_a_job_that_another_recipe_waits_for_goes_on(node):
    (job,) = run(node, sampling())["jobs"]
    assert run(node, sampling())["jobs"] == [job]
    change(node, "pause")
    assert aside(node, job)[0] == "queued"
    change(node, "pause", "r2")
    assert aside(node, job) == ("paused", "r2 is paused"), "nobody waits for it any more"
    change(node, "resume")
    assert aside(node, job)[0] == "queued", "r1 waits for it"
    work(node)
    is_done(node)
    assert shown(node, "r2")["state"] == "paused"
    change(node, "resume", "r2")
    is_done(node, "r2")


def test_a_recipe_that_is_run_later_lets_a_job_go_on(node):
    (job,) = run(node, sampling())["jobs"]
    change(node, "pause")
    assert run(node, sampling(), "later.toml")["jobs"] == [job]
    node.until(lambda: aside(node, job)[0] == "queued", "the job goes on")
    work(node)
    is_done(node, "r2")
    assert shown(node)["state"] == "paused"


def test_a_job_of_two_paused_recipes_is_left_to_the_other(node):
    (job,) = run(node, sampling())["jobs"]
    run(node, sampling())
    change(node, "pause")
    change(node, "pause", "r2")
    assert aside(node, job) == ("paused", "r2 is paused")
    change(node, "delete", "r2")
    assert aside(node, job) == ("paused", ASIDE)
    change(node, "resume")
    assert aside(node, job)[0] == "queued"


def test_what_an_operator_does_with_a_job_meanwhile_counts(node):
    jobs = [node.dispatch(only_datasets=["own_sums"], only_jobs=["free_response.chat"], seed=n)[0] for n in range(3)]
    run(node, named(*jobs))
    change(node, "pause")
    paused, held, resumed = jobs
    node.cli("pause", paused, "--reason", ASIDE)
    node.cli("hold", held, "--reason", "later")
    node.cli("resume", resumed)
    assert aside(node, resumed)[0] == "queued", "it goes on without its recipe"
    change(node, "resume")
    assert [aside(node, one) for one in (paused, held)] == [("paused", f"{ASIDE}."), ("held", "later")]


def test_a_pause_that_is_cut_off_by_a_kill_pauses_nothing(node):
    (job,) = run(node, sampling())["jobs"]
    node.kill()
    node.start(RWKVCTL_CRASH_AT="recipe-between-pauses")
    node.cli("recipe", "pause", "r1", check=False)
    node.until(lambda: not node.answers(), "the daemon was killed")
    node.start()
    node.until(lambda: aside(node, job)[0] == "queued", "its job goes on")
    assert shown(node)["state"] == "waiting"


@pytest.mark.parametrize("action", ["stop", "delete"])
def test_the_jobs_of_a_recipe_that_is_given_up_go_on(node, action):
    (job,) = run(node, sampling())["jobs"]
    change(node, "pause")
    change(node, action)
    assert aside(node, job)[0] == "queued"
    assert node.cli("recipe", "show", "r1", check=False).returncode == (4 if action == "delete" else 0)
    if action == "stop":
        refused = node.cli("recipe", "pause", "r1", check=False)
        assert (refused.returncode, "r1 is stopped" in refused.stderr) == (5, True)


def test_a_job_that_runs_is_paused_and_keeps_what_it_has(node):
    answer(node, answers=1)
    (job,) = run(node, sampling())["jobs"]
    work(node)
    node.wait_until_some(job, 1)
    folder = RunDir(node.home / "runs" / job)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(change, node, "pause")
        node.until(lambda: folder.read_desired() == "pause", "its runner is to pause")
        answer(node)
        assert asked.result()["state"] == "paused"
    found = node.wait_for_state(job, "paused", "done")  # done if it had asked for the second answer, too
    assert found.get("detail", "") == (ASIDE if found["state"] == "paused" else "")
    change(node, "resume")
    is_done(node)
    assert len(node.stage_lines(job)) == 2, "nothing was sampled twice"


def test_nothing_is_queued_for_a_recipe_that_is_paused(node, tmp_path):
    """Without a writer the rewriting is held, and stays so while its recipe is paused, also when there is a writer."""
    (job,) = run(node, sampling(more=REWRITE))["jobs"]
    run(node, sampling())
    change(node, "pause")
    work(node)
    is_done(node, "r2")
    assert [one["id"] for one in node.api.get("/v1/jobs").value["items"]] == [job]
    change(node, "resume")
    node.until(lambda: shown(node)["jobs"] != [job], "its rewriting is queued")
    (rewriting,) = shown(node)["jobs"]
    assert why(node, rewriting) == ("held", "writer-not-configured")
    change(node, "pause")
    folder = tmp_path / "config" / "rwkvctl"
    folder.mkdir(parents=True)
    with fake_judge.in_thread(fake_judge.FakeJudge(behave=lambda _: fake_judge.Do("no form at all"))) as server:
        (folder / "config.toml").write_text(f'[writer]\nbase_url = "{server.url}"\nmodel = "scribe"\n')
        node.api.post("/v1/reload", {})
        (other,) = node.dispatch(limit=1)
        node.wait_for_state(other, "done")
        assert why(node, rewriting) == ("held", "writer-not-configured")
        change(node, "resume")
        node.wait_for_state(rewriting, "done")


def test_the_next_daemon_keeps_a_recipe_paused(node):
    (job,) = run(node, sampling())["jobs"]
    change(node, "pause")
    node.kill()
    node.start()
    work(node)
    (other,) = node.dispatch(limit=1)
    node.wait_for_state(other, "done")
    assert (shown(node)["state"], aside(node, job)) == ("paused", ("paused", ASIDE))
    change(node, "resume")
    is_done(node)


def test_a_mix_is_paused_and_one_of_a_paused_recipe_waits(node):
    run(node, sampling())
    change(node, "pause")
    run(node, '[[mix]]\nrecipe = "r1"\n')
    told = "r1 is paused: `rwkvctl recipe resume r1`"
    node.until(lambda: shown(node, "r2").get("detail") == told, "it says what it waits for")
    assert change(node, "pause", "r2")["state"] == "paused"
    change(node, "resume")
    work(node)
    is_done(node)
    assert shown(node, "r2")["state"] == "paused"
    assert change(node, "resume", "r2")["state"] == "waiting"
    is_done(node, "r2")
    assert shown(node, "r2")["rows"] == 2
