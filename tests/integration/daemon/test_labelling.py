"""Labels that the writer gives, on a live node: a scripted writer on loopback is asked about each row, and once."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_judge
import pytest
from live_node import kill_worker
from sums_recipes import prepare

pytestmark = pytest.mark.slow("recipes")

LEVELS: dict[str, float] = {
    "Anna has nine apples and eats four of them on a sunny afternoon; how many are left?": 1,
    "A train has twelve waggons, and three of them stay behind in the station; how many go on?": 1.5,
    "Two friends collect seven shells each on the northern island; how many have they together?": 2,
    "How many legs have six spiders that live behind the green shutter of the mill?": 4.5,
}
ANNA, TRAIN, SHELLS, SPIDERS = LEVELS
ANSWERS = ("5", "9", "14", "48")


def problem_in(asked: Any) -> str | None:
    """The problem that a request is about; None of a probe."""
    return next((problem for problem in LEVELS if problem in asked.prompt), None)


def rates(asked: Any) -> Any:
    """What an obedient writer replies; a probe gets words."""
    problem = problem_in(asked)
    return fake_judge.Do("seven, eight" if problem is None else json.dumps({"level": LEVELS[problem]}))


def but(**texts: Any) -> Any:
    """A writer that replies to some problems, named by their first word, with another text or act."""

    def behave(asked: Any) -> Any:
        problem = problem_in(asked)
        other = texts.get(problem.split()[0]) if problem else None
        if other is None:
            return rates(asked)
        return fake_judge.Do(other) if isinstance(other, str) else other

    return behave


@pytest.fixture
def server() -> Iterator[Any]:
    with fake_judge.in_thread(fake_judge.FakeJudge(behave=rates)) as fake:
        yield fake


@pytest.fixture
def node(new_node: Any, server: Any, tmp_path: Path) -> Any:
    """A node with a writer and a training set of four problems."""
    found = new_node()
    found.settings |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    configure(found, server)
    found.start()
    prepare(found, tmp_path, "sums", dict(zip(LEVELS, ANSWERS, strict=True)))
    return found


def configure(node: Any, server: Any, **changes: Any) -> None:
    """Write the table of the writer; none without a server."""
    folder = Path(node.settings["XDG_CONFIG_HOME"]) / "rwkvctl"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    if server is not None:
        table = {"base_url": server.url, "model": "scribe", "revision": "r1"} | changes
        lines = ["[writer]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    (folder / "config.toml").write_text("\n".join([*lines, ""]))


def reconfigure(node: Any, server: Any, **changes: Any) -> None:
    configure(node, server, **changes)
    node.api.post("/v1/reload", {})


def label(node: Any, *words: str) -> dict[str, Any]:
    """What `data label --rule difficulty` says as --json."""
    done = node.cli("data", "label", "own_sums", "--rule", "difficulty", *words, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def labelled(node: Any, *words: str, state: str = "done") -> dict[str, Any]:
    """The job of a labelling, once it is in this state."""
    return dict(node.wait_for_state(label(node, *words)["job"], state))


def questions(server: Any) -> Counter[str]:
    """The problems that the writer was asked about, and how often each."""
    return Counter(filter(None, map(problem_in, server.asked)))


def files_of(node: Any) -> list[Path]:
    return list((node.home / "data" / "own_sums" / "labels").glob("*.jsonl"))


def stored(node: Any) -> dict[str, dict[str, Any]]:
    """The labels of the set, the newest of each field, by row name."""
    found: dict[str, dict[str, Any]] = {}
    files = sorted(
        (node.home / "data" / "own_sums" / "labels").glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns
    )
    for path in files:
        header, _, column = map(json.loads, path.read_text().splitlines())
        values = [None, *column["values"]]
        found[header["labels"]["field"]] = header["labels"] | {"values": [values[code] for code in column["codes"]]}
    return found


def held_back(node: Any, server: Any, *words: str, asked_for: int = 4) -> tuple[str, dict[str, bool]]:
    """The name of a labelling that waits for all its replies, and what lets them go."""
    held = {"back": True}

    def let_go(asked: Any) -> bool:
        return not held["back"] or problem_in(asked) is None

    server.behave = lambda asked: fake_judge.Do(rates(asked).text, until=lambda: let_go(asked))
    name = str(label(node, *words)["job"])
    node.until(lambda: len(questions(server)) == asked_for, "the writer is being asked")
    return name, held


def reasons(node: Any, job: dict[str, Any]) -> Counter[str]:
    return Counter(one["reason"] for one in node.samples(job["id"]))


def test_the_writer_labels_rows_and_where_picks_by_them(node: Any, server: Any) -> None:
    said = node.cli("data", "label", "own_sums", "--rule", "difficulty").stdout
    assert "labels 4 rows of own_sums by difficulty/1" in said
    job = node.wait_for_state("j1", "done")
    assert (job["model"], job["labels"], job["done"], job["total"]) == ("writer", "difficulty/1", 4, 4)
    assert re.fullmatch(r"difficulty@[0-9a-f]{8}: 4 of 4 rows labelled", job["detail"])
    labels = stored(node)["difficulty"]
    assert labels["values"] == [1, 1.5, 2, 4.5]
    assert (labels["rule"], labels["source"]) == ("difficulty/1", f"scribe r1 at {server.url}")
    assert questions(server) == dict.fromkeys(LEVELS, 1)
    (picked,) = node.dispatch(
        models=["builtin"], only_datasets=["own_sums"], only_jobs=["free_response.chat"],
        settings={"where": "difficulty>=2"},
    )  # fmt: skip
    assert node.wait_for_state(picked, "done")["total"] == 2
    assert "difficulty" in node.cli("benchmarks", "show", "own_sums").stdout


def test_a_labelling_is_no_measurement_and_has_nothing_to_grade_rewrite_or_train_on(
    node: Any, server: Any, tmp_path: Path
) -> None:
    job = labelled(node)
    assert node.api.get("/v1/scores").value["items"] == []
    assert "score" not in job
    samples = {one["row_id"]: one for one in node.samples(job["id"])}
    assert {one["reason"] for one in samples.values()} == {"labelled"}
    assert [one["extracted"] for one in samples.values()] == ["1", "1.5", "2", "4.5"]
    assert [problem in one["stages"][0]["prompt"] for one, problem in zip(samples.values(), LEVELS, strict=True)]
    for words in (("regrade", job["id"]), ("rewrite", job["id"]), ("data", "label", "own_sums", "--jobs", job["id"])):
        refused = node.cli(*words, check=False)
        assert refused.returncode != 0
        assert f"{job['id']} labels rows: it has no answers" in refused.stdout + refused.stderr
    recipe = tmp_path / "r.toml"
    recipe.write_text(f'jobs = ["{job["id"]}"]\n[select]\nrule = "all-correct"\n')
    checked = node.cli("recipe", "check", str(recipe), check=False)
    assert f"{job['id']} labels rows: it has no answers to train on" in checked.stdout + checked.stderr
    found = node.api.get(f"/v1/jobs/{job['id']}/repro").value
    argv = ["rwkvctl", "data", "label", "own_sums", "--rule", "difficulty", "--field", "difficulty"]
    assert (found["same"], found["argv"]) == (True, argv)
    assert "labels rows by" in node.cli("show", job["id"]).stdout


def test_what_is_labelled_already_is_neither_asked_nor_paid_again(node: Any, server: Any) -> None:
    first = labelled(node)
    asked = len(server.asked)
    again = label(node)
    assert (again["action"], again["reason"], again["job"]) == ("skip", "done", first["id"])
    for path in files_of(node):
        path.unlink()
    again = label(node)
    assert first["detail"].startswith(again["labels"])
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]
    other = labelled(node, "--field", "level")
    assert other["id"] != first["id"]
    assert set(stored(node)) == {"difficulty", "level"}
    assert len(server.asked) == asked


def test_labellings_of_parts_of_the_rows_add_up(node: Any, server: Any) -> None:
    labelled(node, "--set", "rows=0:2")
    assert stored(node)["difficulty"]["unlabelled"] == {"not asked": 2}
    job = labelled(node, "--set", "rows=2:4", "where=answer=48")
    assert stored(node)["difficulty"]["values"] == [1, 1.5, None, 4.5]
    assert "3 of 4 rows labelled" in job["detail"]
    newest = job["detail"].partition(":")[0]
    assert label(node, "--set", "rows=0:2")["labels"] == newest  # the labels of both jobs, as they were
    whole = labelled(node, "--limit", "3")
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]
    assert (whole["total"], questions(server)) == (3, dict.fromkeys(LEVELS, 1))


def test_a_server_without_schemas_is_asked_without(node: Any, server: Any) -> None:
    labelled(node, "--limit", "1")
    (asked,) = [one for one in server.asked if problem_in(one)]
    assert asked.document["response_format"]["json_schema"]["schema"]["required"] == ["level"]

    def refuses(asked: Any) -> Any:
        if "response_format" in asked.document:
            return fake_judge.Do("response_format is not supported", status=400)
        return fake_judge.Do(rates(asked).text.replace('{"level": ', "It is [[").replace("}", "]]."))

    server.behave = refuses
    reconfigure(node, server, revision="r2")
    labelled(node)
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]


def test_a_reply_that_cannot_be_read_is_asked_for_again_and_leaves_the_row_without_a_label(
    node: Any, server: Any
) -> None:
    server.behave = but(Anna="It is easy.", How="[[4]] or [[5]]", Two="<html>502 Bad Gateway</html>")
    job = labelled(node)
    assert reasons(node, job) == {"labelled": 1, "form": 3}
    assert questions(server) == {ANNA: 3, TRAIN: 1, SHELLS: 3, SPIDERS: 3}
    labels = stored(node)["difficulty"]
    assert (labels["values"], labels["unlabelled"]) == ([None, 1.5, None, None], {"unreadable": 3})
    details = [one.get("detail", "") for one in node.samples(job["id"])]
    assert sorted(details) == ["", "The reply has no level.", "The reply has no level.",
                                        "The reply names 2 different levels."]  # fmt: skip


def test_rows_that_failed_are_asked_again_and_no_others(node: Any, server: Any) -> None:
    server.behave = but(Anna=fake_judge.Do("the content filter does not like apples", status=400))
    first = labelled(node)
    assert reasons(node, first) == {"labelled": 3, "error": 1}
    assert stored(node)["difficulty"]["unlabelled"] == {"failed": 1}
    server.behave = rates
    before = questions(server)
    second = labelled(node)
    assert second["id"] != first["id"]
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]
    assert questions(server) - before == {ANNA: 1}


def test_when_all_rows_have_failed_the_same_command_asks_them_again(node: Any, server: Any) -> None:
    server.behave = but(**dict.fromkeys(("Anna", "A", "Two", "How"), fake_judge.Do("no apples here", status=400)))
    first = labelled(node, state="failed")
    assert "no row of own_sums would have a label: 4 failed; `rwkvctl data label`" in first["detail"]
    server.behave = rates
    second = labelled(node)
    assert second["id"] != first["id"]
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]


def by_tier(node: Any, tmp_path: Path) -> Path:
    """Labels `tier` of a file, by which rows are picked: the last two have tier 1. Returns where they are stored."""
    table = tmp_path / "tiers.jsonl"
    table.write_text("".join(json.dumps({"row": row, "tier": row // 2}) + "\n" for row in range(4)))
    node.cli("data", "label", "own_sums", "--from", str(table), "--field", "tier")
    (file,) = [path for path in files_of(node) if path.name.startswith("tier@")]
    return file


@pytest.mark.parametrize("limit", [(), ("--limit", "1")])
def test_labels_of_rows_that_cannot_be_told_any_more_are_never_put_on_others(
    node: Any, server: Any, tmp_path: Path, limit: tuple[str, ...]
) -> None:
    picked_by = by_tier(node, tmp_path)
    name, held = held_back(node, server, "--set", "where=tier=1", *limit, asked_for=1 if limit else 2)
    former = picked_by.read_bytes()
    picked_by.unlink()
    held["back"] = False
    job = node.wait_for_state(name, "failed")
    assert "which rows of own_sums j1 asked cannot be told any more" in job["detail"]
    assert stored(node) == {}
    labelled(node, "--set", "rows=0:1")
    assert stored(node)["difficulty"]["values"] == [1, None, None, None]
    picked_by.write_bytes(former)
    node.cli("resume", name)
    node.wait_for_state(name, "done")
    expected = [1, None, 2, None if limit else 4.5]
    assert stored(node)["difficulty"]["values"] == expected
    picked_by.unlink()  # an earlier job whose rows cannot be told keeps no later one from its labels
    labelled(node, "--set", "rows=1:2")
    assert stored(node)["difficulty"]["values"] == [1, 1.5, None, None]


def test_a_store_that_is_rebuilt_has_labellings_and_still_no_score_of_them(node: Any, server: Any) -> None:
    name = labelled(node)["id"]
    node.terminate()
    (file,) = files_of(node)
    file.unlink()
    (node.home / "store.sqlite").unlink()
    node.cli("rebuild", "--yes")
    node.start()
    node.wait_for_state(name, "done")
    assert files_of(node) == [file]
    assert node.api.get("/v1/scores").value["items"] == []
    assert questions(server) == dict.fromkeys(LEVELS, 1)


def test_short_replies_about_rows_do_not_make_rewritings_look_cheap(node: Any, server: Any) -> None:
    (source,) = node.dispatch(models=["builtin"], only_datasets=["own_sums"], only_jobs=["free_response.chat"])
    node.engines_do(texts={problem[:30]: f" It is \\boxed{{{a}}}." for problem, a in zip(LEVELS, ANSWERS, strict=True)})
    node.wait_for_state(source, "done")
    before = json.loads(node.cli("rewrite", source, "--check", "--json").stdout)["paid"]
    labelled(node)
    assert json.loads(node.cli("rewrite", source, "--check", "--json").stdout)["paid"] == before


def test_a_failure_never_takes_a_label_away(node: Any, server: Any) -> None:
    labelled(node, "--set", "rows=0:2")
    server.behave = but(A="no level")
    reconfigure(node, server)
    labelled(node, "--set", "rows=1:4")
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]


def test_rows_without_any_label_fail_the_job_with_a_sentence(node: Any, server: Any) -> None:
    server.behave = but(Anna="", A="", Two="", How="")
    job = labelled(node, state="failed")
    assert job["detail"] == "no row of own_sums would have a label: 4 unreadable"
    assert stored(node) == {}


def test_without_a_writer_it_is_held_and_goes_on_when_there_is_one(node: Any, server: Any) -> None:
    reconfigure(node, None)
    assert label(node, "--check")["action"] == "hold"
    job = labelled(node, state="held")
    assert job["reason"] == "writer-not-configured"
    assert (
        "j2 is held, and labels 4 rows of own_sums by difficulty/1 later: needs a writer"
        in node.cli("data", "label", "own_sums", "--rule", "difficulty", "--field", "x").stdout
    )
    reconfigure(node, server)
    assert node.wait_for_state(job["id"], "done", "failed")["state"] == "done"
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]


def test_check_says_what_it_costs_and_queues_nothing(node: Any, server: Any) -> None:
    reconfigure(node, server, prompt_price=1.0, completion_price=2.0, budget=50.0)
    found = label(node, "--check")
    assert (found["action"], found["rows"], found["paid"]["calls"], found["paid"]["calls_most"]) == ("run", 4, 4, 12)
    assert found["paid"]["basis"] == "4 problems and the reply of an example"
    assert (found["paid"]["cost"] > 0, found["paid"]["budget_left"], found.get("job", "")) == (True, 50.0, "")
    assert not questions(server)
    said = node.cli("data", "label", "own_sums", "--rule", "difficulty", "--check")
    assert said.stdout.startswith("would label 4 rows of own_sums by difficulty/1\n")
    assert "writer scribe: about 4 calls (at most 12)" in said.stdout + said.stderr
    labelled(node)
    measured = label(node, "--field", "level", "--check")["paid"]
    assert (measured["measured"], measured["tokens"]) == (True, 4 * 110)


def test_rows_that_are_prepared_anew_meanwhile_get_no_labels_of_the_former(
    node: Any, server: Any, tmp_path: Path
) -> None:
    name, held = held_back(node, server)
    rows = tmp_path / "sums.jsonl"
    former = rows.read_text()
    rows.write_text(json.dumps({"question": "How many legs has a horse?", "answer": "4"}) + "\n")
    node.cli("data", "own", str(rows), "--training", "--replace")
    held["back"] = False
    job = node.wait_for_state(name, "failed")
    assert "the rows of own_sums are not those that j1 asked" in job["detail"]
    assert stored(node) == {}
    rows.write_text(former)
    node.cli("data", "own", str(rows), "--training", "--replace")
    reconfigure(node, None)  # to publish what was paid needs no writer
    node.cli("resume", name)
    node.wait_for_state(name, "done")
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]
    assert questions(server) == dict.fromkeys(LEVELS, 1)


@pytest.mark.parametrize("who", ["daemon", "runner"])
def test_kill_9_pays_for_no_reply_again_that_had_come(node: Any, server: Any, who: str) -> None:
    held = {"back": True}

    def first_alone(asked: Any) -> Any:
        waits = problem_in(asked) not in {None, ANNA}
        return fake_judge.Do(rates(asked).text, until=lambda: not (waits and held["back"]))

    server.behave = first_alone
    name = label(node)["job"]
    node.until(lambda: node.job(name).get("done", 0) == 1, "the first label is stored")
    if who == "daemon":
        node.kill()
        held["back"] = False
        node.start()
    else:
        kill_worker(node.runner_record(name))
        held["back"] = False
    job = node.wait_for_state(name, "done", "failed")
    assert reasons(node, job) == {"labelled": 4}
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]
    assert questions(server)[ANNA] == 1


def test_a_daemon_that_is_killed_after_publishing_publishes_the_same_again(node: Any, server: Any) -> None:
    node.terminate()
    node.start(RWKVCTL_CRASH_AT="labels-after-publishing")
    name = label(node)["job"]
    node.daemon.wait(60)
    (file,) = files_of(node)
    node.start()
    job = node.wait_for_state(name, "done")
    assert files_of(node) == [file]
    assert job["detail"].startswith(f"difficulty@{file.stem.rpartition('@')[2][:8]}")
    assert questions(server) == dict.fromkeys(LEVELS, 1)


def test_a_labelling_that_was_stopped_goes_on(node: Any, server: Any) -> None:
    name, held = held_back(node, server)
    assert label(node)["reason"] == "queued"
    node.cli("stop", name, "--timeout", "60")
    held["back"] = False
    said = node.cli("data", "label", "own_sums", "--rule", "difficulty", "--check").stdout
    assert f"{name} would go on, and label 4 rows" in said
    again = label(node)
    assert (again["action"], again["job"]) == ("resume", name)
    node.wait_for_state(name, "done")
    assert stored(node)["difficulty"]["values"] == [1, 1.5, 2, 4.5]


def test_damaged_rows_and_rows_that_are_gone_are_said_in_a_sentence(node: Any) -> None:
    files = [path for path in (node.home / "data" / "own_sums").iterdir() if path.is_file()]
    whole = {path: path.read_bytes() for path in files}
    for path, content in whole.items():
        path.write_bytes(content.replace(b"Anna", b"Anne"))
    said = refused(node, "own_sums", "--rule", "difficulty", "--check")
    assert "own_sums" in said
    assert "Internal error" not in said
    for path, content in whole.items():
        path.write_bytes(content)
    job = labelled(node, "--limit", "1")
    for path in files:
        path.unlink()
    assert node.api.get(f"/v1/jobs/{job['id']}/repro").value["same"] is False


def refused(node: Any, *words: str) -> str:
    done = node.cli("data", "label", *words, check=False)
    assert done.returncode, done.stdout
    return str(done.stderr)


def test_what_cannot_be_labelled_is_refused_with_a_sentence(node: Any) -> None:
    assert "there is no label rule 'beauty'; there are: difficulty" in refused(node, "own_sums", "--rule", "beauty")
    assert "There is no benchmark nonsense" in refused(node, "nonsense", "--rule", "difficulty")
    assert "not prepared" in refused(node, "gsm8k_train", "--rule", "difficulty")
    assert "k picks no rows: --set takes rows and where here" in refused(
        node, "own_sums", "--rule", "difficulty", "--set", "k=2"
    )
    assert "colour" in refused(node, "own_sums", "--rule", "difficulty", "--set", "where=colour=red")
    assert "rows=7:9 leaves none of its 4 rows" in refused(
        node, "own_sums", "--rule", "difficulty", "--set", "rows=7:9"
    )
    assert "is not labelled" in refused(node, "demo_choice", "--rule", "difficulty")
    assert "a field 'question' of their own" in refused(node, "own_sums", "--rule", "difficulty", "--field", "question")
    assert "--set, --limit and --check belong to --rule" in refused(node, "own_sums", "--jobs", "j1", "--check")
    assert "name a file (--from), finished jobs (--jobs), or a rule (--rule)" in refused(node, "own_sums")
