"""Outside harnesses on a live node: what becomes of what they write, and what a dispatch of them refuses. What they can
see, and how they end, is in `test_harness_runs.py`."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness_node import HarnessNode

from rwkvctl.protocol.errors import Exit

WARNED = "no result for right"


@pytest.fixture(scope="module")
def node(module_node: Any, built_harness: Path) -> HarnessNode:
    """A node whose jobs stay."""
    one = HarnessNode(module_node())
    one.install(built_harness)
    one.live.start()
    return one


@pytest.fixture(scope="module")
def jobs(node: HarnessNode) -> dict[str, dict[str, Any]]:
    """Ended jobs of one dispatch by their task."""
    tasks = ("sums", "exit3", "empty", "nan", "both", "short", "gap", "torn", "other", "norows")
    return dict(zip(tasks, node.ended(*tasks), strict=True))


@pytest.fixture
def own(new_node: Any, built_harness: Path) -> Iterator[HarnessNode]:
    """A started node of a test's own."""
    one = HarnessNode(new_node())
    one.install(built_harness)
    one.live.start()
    return one


def is_partial(score: dict[str, Any]) -> bool:
    return bool(score.get("partial"))


def refused(node: HarnessNode, *words: str, harness: str = "fake", code: int = Exit.USAGE) -> str:
    found = node.live.cli("dispatch", "--models", "builtin", "--harness", harness, *words, check=False)
    assert found.returncode == code, found.stdout + found.stderr
    return found.stderr


# -- results


def test_a_job_of_a_harness_has_samples_and_a_score(node: HarnessNode, jobs: dict[str, Any]) -> None:
    job = jobs["sums"]
    assert (job["state"], job["benchmark"], job["kind"]) == ("done", "fake:sums", "harness.fake@1.0")
    samples = sorted(node.live.samples(job["id"]), key=lambda one: one["row"])
    assert [one["row"] for one in samples] == [0, 1, 2, 3]
    assert [one["stages"][0]["prompt"] for one in samples] == [f"sums: 17+{row}=" for row in range(4)]
    right = [one["value"] for one in samples]
    assert right == [float(one["stages"][0]["completion"] == one["expected"]) for one in samples]
    made = job["score"]
    assert (made["n"], made["scored"], made["primary"], is_partial(made)) == (4, 4, "exact_match", False)
    assert made["metrics"]["exact_match"]["value"] == sum(right) / 4
    assert made.get("warnings", []) == []
    known = made["provenance"]
    assert known["task"] == {"version": "1.0", "shots": "0", "requests": 4, "refused": 0, "parts": {}}
    assert known["generated_tokens"] > 0 < known["prompt_tokens"]
    assert len(known["engines"]) == 1
    assert "fake:sums" in node.live.cli("scores").stdout


def test_the_command_that_repeats_a_job_does_the_same_work(node: HarnessNode, jobs: dict[str, Any]) -> None:
    found = json.loads(node.live.cli("show", jobs["sums"]["id"], "--repro", "--json").stdout)
    assert found["same"], found["differs"]
    words = found["argv"]
    assert "--harness" in words
    planned = json.loads(node.live.cli("queue", *words[2:], "--json").stdout)["rows"]
    assert [row["generation_key"] for row in planned] == [jobs["sums"]["generation_key"]]
    shown = node.live.cli("show", jobs["sums"]["id"], "--repro").stdout
    assert shlex.join(words) in shown


def test_exit_codes_decide_nothing(jobs: dict[str, Any]) -> None:
    assert jobs["exit3"]["state"] == "done"
    assert jobs["exit3"]["score"]["n"] == 4
    assert jobs["empty"]["state"] == "failed"
    assert jobs["empty"]["failure"] == "benchmark"
    for words in ("exit code 0", "wrote no results", "cannot find the rows"):
        assert words in jobs["empty"]["detail"]


def test_a_value_that_is_no_number_is_none(node: HarnessNode, jobs: dict[str, Any]) -> None:
    made = jobs["nan"]["score"]
    assert jobs["nan"]["state"] == "done"
    assert made["metrics"]["exact_match"]["value"] is None
    assert "nan" in made["why_null"]
    assert len(node.live.samples(jobs["nan"]["id"])) == 4


def test_a_group_has_the_samples_of_its_parts(node: HarnessNode, jobs: dict[str, Any]) -> None:
    made = jobs["both"]["score"]
    assert (made["n"], is_partial(made), made["metrics"]["exact_match"]["value"]) == (8, False, 0.5)
    assert made["provenance"]["task"]["parts"] == {"left": 4, "right": 4}
    prompts = {one["row"]: one["stages"][0]["prompt"] for one in node.live.samples(jobs["both"]["id"])}
    assert (prompts[0], prompts[7], len(prompts)) == ("left: 17+0=", "right: 17+3=", 8)


def test_what_is_missing_of_a_result_is_said(jobs: dict[str, Any]) -> None:
    assert [jobs[task]["state"] for task in ("short", "gap")] == ["done", "done"]
    short, gap = jobs["short"]["score"], jobs["gap"]["score"]
    assert short["partial"]
    assert WARNED in " ".join(short["warnings"])
    assert gap["partial"]
    assert "3 of its 4 rows have a sample" in " ".join(gap["warnings"])


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("torn", "unparsable"),
        ("other", "without a result for other; it has results of elsewhere"),
        ("norows", "no row"),
    ],
)
def test_what_is_no_result_fails(node: HarnessNode, jobs: dict[str, Any], task: str, words: str) -> None:
    assert jobs[task]["state"] == "failed"
    assert words in jobs[task]["detail"]
    assert jobs[task].get("score") is None
    assert node.live.samples(jobs[task]["id"]) == []


def test_a_limit_is_given_to_the_harness_and_makes_the_score_partial(node: HarnessNode) -> None:
    (job,) = node.ended("sums", limit=2)
    assert (job["score"]["n"], job["score"]["partial"]) == (2, True)
    assert json.loads(node.live.cli("show", job["id"], "--repro", "--json").stdout)["same"]


def test_what_evalplus_writes_is_read_by_count(new_node: Any, built_harness: Path) -> None:
    one = HarnessNode(new_node())
    command = ["{python}", "{own}/fake_harness.py", "evalplus", "{tasks}", "{base_url}", "{out}"]
    one.install(built_harness, parser="evalplus", command=command, options={})
    one.live.start()
    sums, short = one.ended("sums", "short")
    samples = sorted(one.live.samples(sums["id"]), key=lambda sample: sample["row"])
    assert [sample["stages"][0]["prompt"] for sample in samples] == [f"Sums/{row}" for row in range(4)]
    metrics = sums["score"]["metrics"]
    assert sums["score"]["primary"] == "pass@1,plus"
    assert metrics["pass@1,plus"]["value"] == sum(sample["value"] for sample in samples) / 4
    assert metrics["pass@1,plus"]["value"] <= metrics["pass@1,base"]["value"]
    assert short["score"]["metrics"]["pass@1,plus"]["value"] is None
    assert short["score"]["warnings"] == ["1 of its 4 rows have no verdict"]


@pytest.mark.real_engine
def test_a_harness_asks_a_real_engine(new_node: Any, built_harness: Path) -> None:
    one = HarnessNode(new_node())
    one.install(built_harness)
    one.live.start()
    (job,) = one.ended("sums")
    assert job["state"] == "done", job["detail"]
    assert job["score"]["n"] == 4
    assert all(sample["stages"][0]["completion"] for sample in one.live.samples(job["id"]))


@pytest.mark.parametrize(
    ("fields", "task", "words"),
    [({"wall_s": 2.0}, "chatty", "wall_s = 2 s"), ({"silence_s": 2.0}, "hang", "silence_s = 2 s")],
)
def test_a_harness_that_takes_too_long_fails(
    new_node: Any, built_harness: Path, fields: dict[str, float], task: str, words: str
) -> None:
    one = HarnessNode(new_node())
    one.install(built_harness, **fields)
    one.live.start()
    (job,) = one.ended(task)
    assert job["state"] == "failed"
    assert "timeout" in job["detail"]
    assert words in job["detail"]
    assert f"rwkvctl resume {job['id']}" in job["detail"]
    assert one.processes() == []


# -- what a dispatch says


def test_its_state_and_its_tasks_are_listed(node: HarnessNode) -> None:
    shown = json.loads(node.live.cli("harness", "--json").stdout)["items"]
    found = {one["name"]: one for one in shown}
    assert (found["fake"]["state"], found["fake"]["tasks"]) == ("ready", 16)
    assert not found["fake"].get("network")
    assert found["lm-eval"]["state"] == "not built"
    assert node.live.cli("harness", "tasks", "fake", "S", "or").stdout.split()[1:] == ["norows", "short"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only-datasets", "summs"), ("no task summs", "sums", "rwkvctl harness tasks fake")),
        (("--only-datasets", "sums", "--set", "depth=3"), ("fake has no such setting", "max_tokens")),
        (("--only-datasets", "sums", "--seed", "3"), ("--seed", "fake has no such setting")),
        (("--only-datasets", "sums", "--set", "max_tokens=many"), ("a number of tokens",)),
        (("--only-datasets", "sums", "--only-jobs", "x"), ("--only-jobs cannot be combined",)),
        ((), ("--harness needs the tasks",)),
    ],
)
def test_what_a_harness_does_not_have_is_refused(node: HarnessNode, words: tuple[str, ...], said: tuple[str]) -> None:
    text = refused(node, *words)
    assert [word for word in said if word not in text] == [], text


def test_a_harness_that_is_not_there_is_refused(node: HarnessNode) -> None:
    assert "`rwkvctl harness build lm-eval` installs it" in refused(node, "--only-datasets", "gsm8k", harness="lm-eval")
    assert "There is no harness nope; there are evalplus, fake, lm-eval" in refused(
        node, "--only-datasets", "x", harness="nope"
    )
    assert "is not built" in node.live.cli("harness", "tasks", "lm-eval", check=False).stderr


def test_changed_tasks_are_refused_until_they_are_read_in(own: HarnessNode) -> None:
    (own.harnesses / "fake" / "more.yaml").write_text("task: more\n")
    assert "have changed; `rwkvctl harness build fake` reads them in" in refused(own, "--only-datasets", "sums")
    (item,) = [one for one in own.live.api.get("/v1/harnesses").value["items"] if one["name"] == "fake"]
    assert item["outdated"]
    said = own.live.cli("harness", "build", "fake").stderr
    assert "installs" not in said, "what is installed is kept"
    (job,) = own.ended("sums")
    assert job["state"] == "done"


def test_the_same_work_is_not_done_twice_and_another_manifest_is_other_work(
    own: HarnessNode, built_harness: Path
) -> None:
    (first,) = own.ended("sums")
    assert own.live.dispatch(harness="fake", only_datasets=["sums"]) == []
    wanted = {"selection": {"models": ["builtin"], "harness": "fake", "only_datasets": ["sums"]}}
    (row,) = own.live.api.post("/v1/plan", wanted).value["rows"]
    assert (row["action"], row["reason"], row["job"]) == ("skip", "done", first["id"])
    own.write(concurrency=2)
    (second,) = own.ended("sums")
    assert second["generation_key"] != first["generation_key"]
    repro = own.live.api.get(f"/v1/jobs/{first['id']}/repro").value
    assert (repro.get("same", False), repro["differs"][0]) == (
        False,
        "the manifest, the lock or your own tasks of fake have changed",
    )
    compared = own.live.cli("compare", first["id"], second["id"], check=False)
    assert compared.returncode == 0, compared.stderr
    own.write(version="2.0")
    (third,) = own.ended("sums")
    assert third["kind"] == "harness.fake@2.0"
    other = own.live.cli("compare", first["id"], third["id"], check=False)
    assert other.returncode not in {0, 1}, other.stdout
    assert "harness.fake@2.0" in other.stdout + other.stderr


def test_no_job_of_a_harness_is_graded_again(node: HarnessNode, jobs: dict[str, Any]) -> None:
    found = node.live.cli("regrade", jobs["sums"]["id"], check=False)
    assert found.returncode != 0
    assert "is graded by the harness itself" in found.stdout
    assert "rwkvctl dispatch --harness fake --only-datasets sums --overwrite" in found.stdout


def test_a_job_waits_for_the_own_tasks_that_it_was_dispatched_with(new_node: Any, built_harness: Path) -> None:
    one = HarnessNode(new_node())
    one.install(built_harness)
    node = one.live.start()
    node.cli("pause", "--queue")
    (job,) = one.start("sums")
    node.wait_for_state(job, "queued")  # its weights are hashed
    more = one.harnesses / "fake" / "more.txt"
    more.write_text("another task")
    node.cli("harness", "build", "fake")
    copies = {file.parent for file in (node.home / "harnesses" / "fake").glob("*/own/*/fake_harness.py")}
    [copy] = [one for one in copies if not (one / "more.txt").exists()]
    aside = copy.rename(node.home / "aside")
    node.cli("resume", "--queue")
    held = node.wait_for_state(job, "held", "done", "failed")
    assert (held["state"], held["reason"]) == ("held", "data-missing")
    assert "your own tasks of fake have changed since" in held["detail"]
    aside.rename(copy)
    node.cli("harness", "build", "fake")
    assert node.wait_for_state(job, "done", "failed")["state"] == "done"


def test_a_result_whose_score_was_not_stored_is_one_after_a_rebuild(new_node: Any, built_harness: Path) -> None:
    one = HarnessNode(new_node())
    one.install(built_harness)
    one.live.start()
    (job,) = one.ended("sums")
    node, folder = one.live, one.live.home / "runs" / job["id"]
    node.terminate()
    (node.home / "store.sqlite").unlink()
    for score in folder.glob("score-*.json"):
        score.unlink()
    node.cli("rebuild")
    node.start()
    again = node.wait_for_state(job["id"], "done", "failed", "stopped")
    assert (again["state"], again["attempt"], again["done"]) == ("done", job["attempt"], job["done"])
