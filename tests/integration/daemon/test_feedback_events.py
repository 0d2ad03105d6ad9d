"""What follows when the jobs of a checkpoint are over: its feedback is written once, who listens is told, `watch wait`
ends."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from measured_run import (
    checkpoints,
    feedback,
    item,
    refused,
    states,
    stored_events,
    until_states,
    until_written,
)
from receiving import receiving
from training_run import TrainingRun
from waiting import LIMIT_S

from rwkvctl.protocol.errors import Exit

ONE = ("--settle", "1", "--policy", "all", "--only-datasets", "demo_arith", "--limit", "60")
TWO = ("--settle", "1", "--policy", "all", "--only-datasets", "demo_arith", "demo_choice", "--limit", "60")
EVENTS = ["checkpoint-done", "best-so-far", "collapsed"]


@contextmanager
def waiting(node: Any, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`rwkvctl watch wait` in a process of its own."""
    command = [sys.executable, "-m", "rwkvctl.cli", "watch", "wait", *words, "--json"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=node.environment, text=True, **pipes)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def waited(node: Any, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and verdict of `rwkvctl watch wait`."""
    code, found = refused(node, "watch", "wait", *words)
    assert found["schema"] == "rwkvctl.watch-wait/1", found
    return code, found


@contextmanager
def pinned(node: Any, model: str, pattern: str) -> Iterator[None]:
    node.cli("baseline", "pin", model, "--for", pattern)
    try:
        yield
    finally:
        node.cli("baseline", "unpin", pattern)


@pytest.fixture(scope="module")
def told(module_node: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A node that has measured a run on one benchmark, whose third and last checkpoint collapsed while somebody waited
    for it; `node.told`: the notices of that."""
    with receiving() as (url, notices):
        node, config = module_node(), tmp_path_factory.mktemp("config")
        node.settings["XDG_CONFIG_HOME"] = str(config)
        (config / "rwkvctl").mkdir()
        (config / "rwkvctl" / "config.toml").write_text(f'[[notify]]\nurl = "{url}"\nevents = {json.dumps(EVENTS)}\n')
        node.start()
        run = TrainingRun(tmp_path_factory.mktemp("runs") / "g1x")
        node.cli("watch", "add", str(run.folder), *ONE)
        for number, right in ((1, 60), (2, 230)):
            run.write(f"rwkv-{number}.pth", right=right)
            until_written(node, f"rwkv-{number}.pth")
        shutil.copy(run.folder / "rwkv-1.pth", run.folder / "copy.pth")
        node.cli("baseline", "pin", "g1x-rwkv-2", "--for", "g1x-*")
        with waiting(node, "w1", "--step", "3") as process:
            node.engines_do(texts={"=": "7"})
            run.write("rwkv-3.pth")
            node.verdict = json.loads(process.communicate(timeout=LIMIT_S)[0])
            node.verdict["exit"] = process.returncode
        node.cli("baseline", "unpin", "g1x-*")
        node.engines_do()
        until_states(node, {f"rwkv-{number}.pth": "done" for number in (1, 2, 3)} | {"copy.pth": "superseded"})
        until_written(node, "rwkv-3.pth")
        node.until(lambda: len(notices) >= len(stored_events(node)), "all is told")
        node.told, node.run = list(notices), run
        yield node


def test_who_listens_is_told_of_each_checkpoint_of_the_best_and_of_a_collapse(told: Any) -> None:
    found = [(one["event"], one["data"]["checkpoint"], one["data"]["model"]) for one in told.told]
    assert sorted(found) == sorted(
        [(EVENTS[0], f"rwkv-{number}.pth", f"g1x-rwkv-{number}") for number in (1, 2, 3)]
        + [(EVENTS[1], "rwkv-2.pth", "g1x-rwkv-2"), (EVENTS[2], "rwkv-3.pth", "g1x-rwkv-3")]
    )
    texts = {(one["event"], one["data"]["checkpoint"]): one["text"] for one in told.told}
    assert "is the best of 2 by demo_arith free_response" in texts["best-so-far", "rwkv-2.pth"]
    assert "every row has the same answer or none: 7" in texts["collapsed", "rwkv-3.pth"]
    done = texts["checkpoint-done", "rwkv-3.pth"]
    assert "against g1x-rwkv-2: 1 worse" in done
    assert str(told.home / "feedback" / "g1x" / "g1x-rwkv-3" / "feedback.md") in done


def test_one_benchmark_without_a_suite_is_what_the_best_is_best_in(told: Any) -> None:
    found = feedback(told)
    assert (found["objective"], found["best"], found["suite"]) == (["demo_arith free_response"], "rwkv-2.pth", "")
    assert item(found)["collapsed"] == "every row has the same answer or none: 7"
    page = told.cli("feedback", "w1").stdout
    assert "**Collapsed**: demo\\_arith free\\_response" in page or "**Collapsed**: demo_arith free_response" in page


def test_who_waited_for_a_checkpoint_that_was_not_there_hears_of_its_regression(told: Any) -> None:
    found = told.verdict
    assert (found["exit"], found["verdict"]) == (Exit.FAILED, "regression")
    assert (found["checkpoint"], found["model"], found["baseline"]) == ("rwkv-3.pth", "g1x-rwkv-3", "g1x-rwkv-2")
    assert [(one["benchmark"], one["gate"]) for one in found["items"]] == [("demo_arith", "regression")]


def test_watch_wait_passes_what_is_no_worse_and_what_was_left_out(told: Any) -> None:
    with pinned(told, "g1x-rwkv-1", "g1x-*"):
        code, found = waited(told, "w1", "rwkv-2.pth")
        assert (code, found["verdict"], found["baseline"]) == (Exit.OK, "passed", "g1x-rwkv-1")
        table = told.cli("watch", "wait", "w1", "--step", "2", "-o", "table")
        assert "passed: rwkv-2.pth against g1x-rwkv-1: 1 of 1 benchmark passed" in table.stdout + table.stderr
        assert waited(told, "w1", "rwkv-3.pth", "--margin", "1")[0] == Exit.OK, "so large a drop is allowed"
    code, found = waited(told, "w1", "copy.pth")
    assert (code, found["verdict"], found["state"]) == (Exit.OK, "skipped", "superseded")
    assert found["why"] == "it is a copy of rwkv-1.pth"
    assert "skipped: copy.pth was not measured" in told.cli("watch", "wait", "w1", "copy.pth").stderr


def test_watch_wait_does_not_pass_without_a_baseline(told: Any) -> None:
    code, found = waited(told, "w1", "rwkv-2.pth")
    assert (code, found["verdict"], found["baseline"], found["items"]) == (Exit.PARTLY, "undecided", "", [])
    said = told.cli("watch", "wait", "w1", "rwkv-2.pth", check=False)
    assert (said.returncode, "no baseline is pinned" in said.stderr) == (Exit.PARTLY, True)


def test_watch_wait_ends_at_its_limit(told: Any) -> None:
    code, found = refused(told, "watch", "wait", "w1", "--step", "99", "--timeout", "1")
    assert (code, found["code"]) == (Exit.TIMEOUT, "timed-out")
    assert "step 99 is not there yet" in found["detail"]


@pytest.mark.parametrize(
    "words", [("w1",), ("w1", "rwkv-2.pth", "--step", "2"), ("w1", "--step", "-3"), ("w1", "--step", "x"), ()]
)
def test_watch_wait_needs_one_checkpoint(told: Any, words: tuple[str, ...]) -> None:
    assert told.cli("watch", "wait", *words, check=False).returncode == Exit.USAGE


def test_watch_wait_for_no_watch_is_refused(told: Any) -> None:
    assert refused(told, "watch", "wait", "w9", "--step", "1")[0] == Exit.NOT_FOUND


def test_a_job_without_a_score_is_named_and_nothing_passes(told: Any) -> None:
    run = TrainingRun(told.run.folder.with_name("g1z"), written=100)
    told.cli("watch", "add", str(run.folder), *TWO)
    told.engines_do(answers=0)
    run.write("rwkv-1.pth", right=230)
    told.until(lambda: checkpoints(told, "g1z") and checkpoints(told, "g1z")[0].get("jobs"), "its jobs are queued")
    (stopped,) = (job for job in checkpoints(told, "g1z")[0]["jobs"] if told.job(job)["benchmark"] == "demo_choice")
    told.cli("stop", stopped)
    told.engines_do()
    until_states(told, {"rwkv-1.pth": "parked"}, "g1z")
    found = feedback(told, watch="g1z")
    assert (found["asked"], found["done"]) == (2, 1)
    assert [(one["job"], one["benchmark"], one["state"]) for one in found["missing"]] == [
        (stopped, "demo_choice", "stopped")
    ]
    assert [one["benchmark"] for one in found["items"]] == ["demo_arith"]
    page = told.cli("feedback", "g1z").stdout
    assert "Scores of 1 of 2 jobs" in page
    assert f"({stopped}, stopped)" in page
    with pinned(told, "g1x-rwkv-1", "g1z-*"):
        code, verdict = waited(told, "g1z", "rwkv-1.pth")
    assert (code, verdict["verdict"]) == (Exit.PARTLY, "undecided")
    assert {one["benchmark"]: one["gate"] for one in verdict["items"]} == {
        "demo_arith": "passed",
        "demo_choice": "undecided",
    }
    run.write("rwkv-2.pth", right=230)
    until_states(told, {"rwkv-1.pth": "parked", "rwkv-2.pth": "done"}, "g1z")
    found = feedback(told, watch="g1z")
    assert (found["objective"], found["best"]) == ([], "")
    assert "only a suite declares an objective" in found["best_why"]
    assert "Best so far: not known" in told.cli("feedback", "g1z").stdout
    none = told.cli("feedback", "g1z", "--best", check=False)
    assert (none.returncode, "g1z declares" in none.stderr) == (Exit.NOT_FOUND, False)
    assert "is the best is not known: several benchmarks are measured" in none.stderr
    (first, second) = next(one["jobs"] for one in checkpoints(told, "g1z") if one["name"] == "rwkv-2.pth")
    told.cli("delete", first, "--yes")
    missing = [(one["job"], one["benchmark"], one["state"]) for one in feedback(told, watch="g1z")["missing"]]
    assert missing == [(first, told.job(second)["benchmark"].replace("choice", "arith"), "deleted")]
    told.cli("watch", "remove", "g1z")


def test_what_could_not_be_queued_is_said_and_does_not_pass(told: Any) -> None:
    run = TrainingRun(told.run.folder.with_name("g1w"), written=200)
    told.cli(
        "watch", "add", str(run.folder), "--settle", "1", "--only-datasets", "demo_arith", "gsm8k", "--limit", "60"
    )
    run.write("rwkv-1.pth", right=230)
    until_states(told, {"rwkv-1.pth": "done"}, "g1w")
    found = feedback(told, watch="g1w")
    assert (found["asked"], found["done"], found["missing"]) == (1, 1, [])
    assert "gsm8k" in found["left_out"]
    assert "gsm8k" in told.cli("feedback", "g1w").stdout
    with pinned(told, "g1x-rwkv-1", "g1w-*"):
        code, verdict = waited(told, "g1w", "rwkv-1.pth")
        said = told.cli("watch", "wait", "g1w", "rwkv-1.pth", check=False)
    assert (code, verdict["verdict"]) == (Exit.PARTLY, "undecided")
    assert "gsm8k" in verdict["left_out"]
    assert (said.returncode, "undecided: " in said.stderr, "gsm8k" in said.stderr) == (Exit.PARTLY, True, True)
    (run.folder / "rwkv-2.pth").write_bytes(b"no checkpoint" * 100)
    until_states(told, {"rwkv-1.pth": "done", "rwkv-2.pth": "parked"}, "g1w")
    code, verdict = waited(told, "g1w", "--step", "2")
    assert (code, verdict["verdict"], verdict["state"]) == (Exit.PARTLY, "undecided", "parked")
    assert "rwkv-2.pth" in verdict["why"]
    assert refused(told, "feedback", "g1w", "--step", "2")[1]["code"] == "not-measured"
    told.cli("watch", "remove", "g1w")


def test_a_kill_before_it_is_stored_writes_the_feedback_again_and_tells_once(new_node: Any, tmp_path: Path) -> None:
    node, run = new_node().start(), TrainingRun(tmp_path / "g1x")
    node.cli("watch", "add", str(run.folder), *ONE)
    run.write("rwkv-1.pth", right=60)
    until_written(node, "rwkv-1.pth")
    node.terminate()
    run.write("rwkv-2.pth", right=230)
    node.start(RWKVCTL_CRASH_AT="feedback-before-commit")
    assert node.daemon.wait(LIMIT_S) < 0
    top = node.home / "feedback" / "g1x"
    first, second = (top / f"g1x-rwkv-{number}" / "feedback.json" for number in (1, 2))
    before = first.stat(), second.stat()
    assert stored_events(node) == [("done", "rwkv-1.pth")]
    node.start()
    until_written(node, "rwkv-2.pth")
    wanted = [("best", "rwkv-2.pth"), ("done", "rwkv-1.pth"), ("done", "rwkv-2.pth")]
    assert sorted(stored_events(node)) == wanted
    assert second.stat().st_ino != before[1].st_ino or second.stat().st_mtime_ns != before[1].st_mtime_ns
    assert not list(top.rglob(".*")), "nothing half written is left"
    node.terminate()
    node.start()
    run.write("rwkv-3.pth", right=230)
    until_written(node, "rwkv-3.pth")
    assert Counter(stored_events(node)) == Counter([*wanted, ("done", "rwkv-3.pth")])
    assert (first.stat().st_ino, first.stat().st_mtime_ns) == (before[0].st_ino, before[0].st_mtime_ns)
    assert states(node) == {f"rwkv-{number}.pth": "done" for number in (1, 2, 3)}


def test_watch_wait_outlives_the_daemon(new_node: Any, tmp_path: Path) -> None:
    node = new_node().start()
    run = TrainingRun(tmp_path / "runs" / "g1x")
    node.cli("watch", "add", str(run.folder), "--settle", "1", "--only-datasets", "demo_arith", "--limit", "30")
    run.write("rwkv-1.pth", right=100)
    until_states(node, {"rwkv-1.pth": "done"})
    node.cli("baseline", "pin", "g1x-rwkv-1")
    with waiting(node, "w1", "--step", "2") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "the checkpoint of step 2 is not there yet\n"
        node.kill()
        assert process.stderr.readline() == "the daemon does not answer; waiting goes on\n"
        node.start()
        run.write("rwkv-2.pth", right=250)
        out, _ = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, json.loads(out)["verdict"]) == (Exit.OK, "passed")
