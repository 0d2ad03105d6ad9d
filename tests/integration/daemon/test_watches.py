"""Watched folders on a live node: every way in which a training run writes, and exactly the jobs that follow."""

import hashlib
import json
import os
import random
import shutil
import sqlite3
import time
from collections import Counter
from contextlib import closing

import pytest
import torch
from training_run import TrainingRun, content

SELECTION = ("--only-datasets", "demo_choice", "--limit", "2")


@pytest.fixture
def run(tmp_path):
    return TrainingRun(tmp_path / "runs" / "g1x")


def watch(node, run, *flags):
    """Watch the folder of a run, which is ready after a second."""
    node.cli("watch", "add", str(run.folder), "--settle", "1", *SELECTION, *flags)


def checkpoints(node):
    """The checkpoints of the first watch, as they were seen."""
    return sorted(node.api.get("/v1/watches/w1", limit=1000).value["items"], key=lambda one: (one["seen"], one["id"]))


def states(node):
    """(name, state) of each."""
    return [(one["name"], one["state"]) for one in checkpoints(node)]


def until_states(node, *expected):
    node.until(lambda: states(node) == list(expected), f"the checkpoints are {expected}")


def jobs(node):
    """(model, state) of all jobs, the oldest first."""
    return [(one["model"], one["state"]) for one in node.api.get("/v1/jobs", limit=1000).value["items"][::-1]]


def test_each_content_is_measured_once_whatever_it_is_called(node, run):
    run.write("rwkv-1.pth")
    watch(node, run, "--policy", "all")
    until_states(node, ("rwkv-1.pth", "done"))
    run.write_by_rename("rwkv-2.pth")
    until_states(node, ("rwkv-1.pth", "done"), ("rwkv-2.pth", "done"))
    shutil.copy(run.folder / "rwkv-1.pth", run.folder / "best.pth")
    run.touch("rwkv-2.pth")
    until_states(node, ("rwkv-1.pth", "done"), ("rwkv-2.pth", "done"), ("best.pth", "superseded"))
    run.write("rwkv-1.pth")
    until_states(
        node, ("rwkv-1.pth", "done"), ("rwkv-2.pth", "done"), ("best.pth", "superseded"), ("rwkv-1.pth", "done")
    )
    found = checkpoints(node)
    assert found[2]["reason"] == "it is a copy of rwkv-1.pth"
    again = f"g1x-rwkv-1-{found[3]['sha256'][:6]}"
    assert jobs(node) == [("g1x-rwkv-1", "done"), ("g1x-rwkv-2", "done"), (again, "done")]
    assert [one["step"] for one in found[:2]] == [1, 2]
    assert {one["jobs"][0] for one in found if one.get("jobs")} == {"j1", "j2", "j3"}
    (item,) = node.api.get("/v1/watches").value["items"]
    assert item["counts"] == {"done": 3, "superseded": 1}
    assert "g1x-rwkv-1" in node.cli("watch", "show", "w1").stdout
    assert str(run.folder) in node.cli("watch").stdout
    assert node.api.get("/v1/job-log").value["items"][0]["user"] == "daemon"
    priority = node.job("j1")["priority"]
    assert priority == -10


def test_what_is_still_being_written_waits_and_what_stays_torn_is_parked(node, run):
    watch(node, run, "--policy", "all")
    path = run.begin("rwkv-1.pth")
    reason = "it is not complete, and does not change: was its copy interrupted?"
    node.until(lambda: [one.get("reason") for one in checkpoints(node)] == [reason], "it is not read as whole")
    run.finish(path)
    until_states(node, ("rwkv-1.pth", "done"))
    torn = run.begin("rwkv-2.pth")
    until_states(node, ("rwkv-1.pth", "done"), ("rwkv-2.pth", "parked"))
    assert "was its copy interrupted" in checkpoints(node)[1]["reason"]
    run.finish(torn)
    until_states(node, ("rwkv-1.pth", "done"), ("rwkv-2.pth", "done"))
    assert jobs(node) == [("g1x-rwkv-1", "done"), ("g1x-rwkv-2", "done")]


def test_what_is_no_checkpoint_is_parked_with_a_sentence(node, run):
    watch(node, run, "--policy", "all", "--match", "rwkv-*.pth")
    (run.folder / "rwkv-junk.pth").write_bytes(b"junk" * 1000)
    (run.folder / "optimizer.pth").write_bytes(b"junk")
    until_states(node, ("rwkv-junk.pth", "parked"))
    adapter = {"blocks.0.att.key.lora_A": torch.ones(2, 128), "blocks.0.att.key.lora_B": torch.ones(128, 2)}
    torch.save(adapter, run.folder / "rwkv-2.pth")
    until_states(node, ("rwkv-junk.pth", "parked"), ("rwkv-2.pth", "parked"))
    junk, lora = (one["reason"] for one in checkpoints(node))
    assert "rwkv-junk.pth" in junk
    assert "is an adapter (lora)" in lora
    assert jobs(node) == []
    run.write("rwkv-junk.pth")
    until_states(node, ("rwkv-junk.pth", "done"), ("rwkv-2.pth", "parked"))


def test_the_newest_takes_the_place_of_what_has_not_begun(node, run):
    node.cli("pause", "--queue")
    watch(node, run)
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    run.write("rwkv-3.pth")
    until_states(node, ("rwkv-1.pth", "superseded"), ("rwkv-3.pth", "dispatched"))
    run.write("rwkv-2.pth")
    until_states(node, ("rwkv-1.pth", "superseded"), ("rwkv-3.pth", "dispatched"), ("rwkv-2.pth", "superseded"))
    assert jobs(node) == [("g1x-rwkv-1", "stopped"), ("g1x-rwkv-3", "queued")]
    assert node.job("j1")["detail"] == "w1: rwkv-3.pth is newer"
    node.cli("resume", "--queue")
    node.wait_for_state("j2", "done")
    node.until(lambda: states(node)[1] == ("rwkv-3.pth", "done"), "the newest is measured")


def test_what_is_deleted_before_it_is_measured_vanishes_with_its_jobs(node, run):
    node.cli("pause", "--queue")
    watch(node, run, "--policy", "all")
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    run.delete("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "vanished"))
    assert jobs(node) == [("g1x-rwkv-1", "stopped")]
    run.write("rwkv-1.pth", number=1)
    until_states(node, ("rwkv-1.pth", "dispatched"))
    node.cli("resume", "--queue")
    until_states(node, ("rwkv-1.pth", "done"))
    run.delete("rwkv-1.pth")
    run.write("rwkv-2.pth")
    until_states(node, ("rwkv-1.pth", "done"), ("rwkv-2.pth", "done"))


def test_a_folder_that_cannot_be_read_is_no_empty_folder(node, run):
    node.cli("pause", "--queue")
    watch(node, run, "--policy", "all")
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    away = run.folder.rename(run.folder.with_name("away"))
    node.until(lambda: node.api.get("/v1/watches").value["items"][0].get("detail"), "the folder is gone")
    assert "cannot be read" in node.cli("watch").stdout
    away.rename(run.folder)
    node.until(lambda: not node.api.get("/v1/watches").value["items"][0].get("detail"), "it is back")
    node.cli("resume", "--queue")
    until_states(node, ("rwkv-1.pth", "done"))
    assert jobs(node) == [("g1x-rwkv-1", "done")]


def test_no_more_are_queued_while_so_many_jobs_wait(node, run):
    node.cli("pause", "--queue")
    watch(node, run, "--policy", "all", "--most-waiting", "1")
    for number in (1, 2):
        run.write(f"rwkv-{number}.pth")
    node.until(lambda: sorted(state for _, state in states(node)) == ["dispatched", "ready"], "the second waits")
    assert [state for _, state in jobs(node)] == ["queued"]
    node.cli("resume", "--queue")
    node.until(lambda: [state for _, state in states(node)] == ["done", "done"], "both are measured")


def test_a_marker_makes_a_checkpoint_ready_at_once(node, run):
    node.cli("watch", "add", str(run.folder), "--settle", "100000", "--marker", "{}.done", *SELECTION)
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "settling"))
    (run.folder / "rwkv-1.pth.done").write_text("")
    until_states(node, ("rwkv-1.pth", "done"))


def test_an_operator_leaves_out_pauses_and_forgets(node, run):
    node.cli("pause", "--queue")
    watch(node, run, "--policy", "all")
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    node.cli("watch", "skip", "w1", "rwkv-1.pth")
    assert states(node) == [("rwkv-1.pth", "superseded")]
    assert jobs(node) == [("g1x-rwkv-1", "stopped")]
    node.cli("watch", "pause", "g1x")
    run.write("rwkv-2.pth")
    node.cli("watch", "retry", "w1", "rwkv-1.pth")
    assert states(node) == [("rwkv-1.pth", "ready")]
    node.cli("watch", "resume", "w1")
    until_states(node, ("rwkv-1.pth", "dispatched"), ("rwkv-2.pth", "dispatched"))
    assert node.cli("watch", "skip", "w1", "other.pth", check=False).returncode == 4
    node.cli("watch", "remove", "w1")
    assert not node.api.get("/v1/watches").value["items"]
    assert len(jobs(node)) == 2
    assert "watches change" in node.cli("audit", "--json").stdout


REFUSED = [
    (("--models", "builtin"), "unknown flag"),
    (("--only-datasets", "gsm9k"), "gsm9k"),
    (("--marker", "done"), "needs one {}"),
    (("--name", "a b"), "cannot begin the names of models"),
    (("--name", "w3"), "cannot begin the names of models"),
    (("--settle", "-1"), "--settle must not be below 0"),
]


@pytest.mark.parametrize(("flags", "said"), REFUSED)
def test_what_cannot_be_watched_is_refused(node, run, flags, said):
    done = node.cli("watch", "add", str(run.folder), *flags, check=False)
    assert done.returncode in {2, 5}
    assert said in done.stderr


def test_a_name_is_given_once_and_the_folder_has_to_be_there(node, run):
    watch(node, run)
    again = node.cli("watch", "add", f"{run.folder}/", check=False)
    assert again.returncode == 5
    assert f"w1 is called g1x; it watches {run.folder}" in again.stderr
    gone = node.cli("watch", "add", str(run.folder / "gone"), check=False)
    assert gone.returncode == 4
    assert "cannot be read" in gone.stderr


def test_content_that_comes_back_under_its_name_is_no_new_work(node, run):
    node.cli("pause", "--queue")
    watch(node, run, "--policy", "all")
    run.write("rwkv-1.pth", number=1)
    until_states(node, ("rwkv-1.pth", "dispatched"))
    run.write("rwkv-1.pth", number=2)
    until_states(node, ("rwkv-1.pth", "vanished"), ("rwkv-1.pth", "dispatched"))
    run.write("rwkv-1.pth", number=1)
    until_states(node, ("rwkv-1.pth", "dispatched"), ("rwkv-1.pth", "vanished"))
    assert [state for _, state in jobs(node)] == ["queued", "stopped"]
    node.cli("resume", "--queue")
    until_states(node, ("rwkv-1.pth", "done"), ("rwkv-1.pth", "vanished"))
    newest = max(one["id"] for one in checkpoints(node))
    run.touch("rwkv-1.pth")
    node.until(lambda: max(one["id"] for one in checkpoints(node)) > newest, "the touch is seen")
    until_states(node, ("rwkv-1.pth", "done"), ("rwkv-1.pth", "vanished"))
    assert [state for _, state in jobs(node)] == ["done", "stopped"]


def test_jobs_that_were_taken_up_again_are_withdrawn_like_new_ones(node, run):
    node.cli("pause", "--queue")
    watch(node, run)
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    node.cli("watch", "skip", "w1", "rwkv-1.pth")
    node.cli("watch", "retry", "w1", "rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    assert jobs(node) == [("g1x-rwkv-1", "queued")]
    node.cli("watch", "skip", "w1", "rwkv-1.pth", "rwkv-1.pth")
    assert jobs(node) == [("g1x-rwkv-1", "stopped")]
    run.write("rwkv-2.pth")
    until_states(node, ("rwkv-1.pth", "superseded"), ("rwkv-2.pth", "dispatched"))
    assert [state for _, state in jobs(node)] == ["stopped", "queued"]


def test_older_ones_are_taken_up_again_when_the_newest_goes(node, run):
    node.cli("pause", "--queue")
    run.write("rwkv-1.pth")
    run.write("rwkv-2.pth")
    watch(node, run)
    until_states(node, ("rwkv-1.pth", "superseded"), ("rwkv-2.pth", "dispatched"))
    assert not checkpoints(node)[0].get("sha256"), "what is not measured is not hashed"
    run.delete("rwkv-2.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"), ("rwkv-2.pth", "vanished"))
    assert jobs(node) == [("g1x-rwkv-2", "stopped"), ("g1x-rwkv-1", "queued")]


def test_the_first_file_of_a_run_takes_nobodys_place(node, run):
    watch(node, run)
    run.write("rwkv-init.pth")
    until_states(node, ("rwkv-init.pth", "done"))
    run.write("best.pth")
    run.write("rwkv-0.pth")
    until_states(node, ("rwkv-init.pth", "done"), ("best.pth", "superseded"), ("rwkv-0.pth", "done"))
    node.cli("watch", "retry", "w1", "best.pth")
    until_states(node, ("rwkv-init.pth", "done"), ("best.pth", "done"), ("rwkv-0.pth", "done"))


def test_a_copy_takes_the_place_of_its_original_that_is_gone(node, run):
    node.cli("pause", "--queue")
    watch(node, run, "--policy", "all")
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    shutil.copy(run.folder / "rwkv-1.pth", run.folder / "best.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"), ("best.pth", "superseded"))
    run.delete("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "vanished"), ("best.pth", "dispatched"))
    node.cli("resume", "--queue")
    until_states(node, ("rwkv-1.pth", "vanished"), ("best.pth", "done"))


def test_stopped_jobs_are_no_measured_checkpoint(node, run):
    node.cli("pause", "--queue")
    watch(node, run)
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    node.cli("watch", "pause", "w1")
    node.cli("stop", "j1")
    until_states(node, ("rwkv-1.pth", "parked"))
    assert checkpoints(node)[0]["reason"] == "0 of 1 job done, 1 stopped"
    node.cli("watch", "resume", "w1")
    node.cli("resume", "--queue")
    node.cli("watch", "retry", "w1")
    until_states(node, ("rwkv-1.pth", "done"))
    assert jobs(node) == [("g1x-rwkv-1", "done")]


def test_a_folder_of_the_weights_folder_keeps_the_names_of_its_watch(node):
    run = TrainingRun(node.home / "weights" / "g1x")
    other = TrainingRun(node.home / "weights" / "other", written=50)
    watch(node, run, "--policy", "all")
    watch(node, other, "--policy", "all")
    run.write("rwkv-1.pth")
    other.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "done"))
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "done"), ("rwkv-1.pth", "done"))
    node.until(lambda: len(jobs(node)) == 3, "the other watch has queued its checkpoint")
    names = sorted(model for model, _ in jobs(node))
    again = f"g1x-rwkv-1-{checkpoints(node)[1]['sha256'][:6]}"
    assert names == sorted(["g1x-rwkv-1", "other-rwkv-1", again])


def test_what_is_left_out_while_it_is_written_stays_out(node, run):
    watch(node, run, "--policy", "all", "--settle", "3")
    path = run.begin("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "settling"))
    node.cli("watch", "skip", "w1", "rwkv-1.pth")
    run.finish(path)
    run.write("rwkv-2.pth")
    until_states(node, ("rwkv-1.pth", "superseded"), ("rwkv-2.pth", "done"))


def test_another_folder_in_the_place_of_the_watched_one_is_not_taken_for_it(node, run):
    watch(node, run, "--policy", "all")
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "done"))
    run.folder.rename(run.folder.with_name("away"))
    run.folder.mkdir()
    node.until(lambda: node.api.get("/v1/watches").value["items"][0].get("detail"), "it is another folder")
    assert "is it not mounted?" in node.cli("watch", "show", "w1", "--json").stdout
    node.cli("watch", "resume", "w1")
    run.write("rwkv-2.pth")
    until_states(node, ("rwkv-1.pth", "done"), ("rwkv-2.pth", "done"))


def test_what_is_in_a_folder_is_shown_before_it_is_watched(node, run):
    run.write("rwkv-12.pth")
    run.write("best.pth")
    reply = json.loads(node.cli("watch", "add", str(run.folder), *SELECTION, "--check", "--json").stdout)
    assert [(one["name"], one.get("step")) for one in reply["items"]] == [("rwkv-12.pth", 12), ("best.pth", None)]
    assert not node.api.get("/v1/watches").value["items"]


def test_a_checkpoint_whose_rows_are_missing_is_parked_with_the_reason(node, run):
    node.cli("watch", "add", str(run.folder), "--settle", "0", "--only-datasets", "gsm8k")
    run.write("rwkv-1.pth")
    node.until(lambda: [one.get("reason", "")[:23] for one in checkpoints(node)] == ["nothing can be queued: "], "why")
    assert states(node) == [("rwkv-1.pth", "ready")]


def test_only_the_next_is_taken_up_when_the_newest_goes(node, run):
    node.cli("pause", "--queue")
    for number in range(1, 7):
        run.write(f"rwkv-{number}.pth")
    watch(node, run)
    node.until(lambda: ("rwkv-6.pth", "dispatched") in states(node), "the newest is queued")
    run.delete("rwkv-6.pth")
    node.until(lambda: ("rwkv-5.pth", "dispatched") in states(node), "the next is queued")
    assert jobs(node) == [("g1x-rwkv-6", "stopped"), ("g1x-rwkv-5", "queued")]
    hashed = [one["name"] for one in checkpoints(node) if one.get("sha256")]
    assert sorted(hashed) == ["rwkv-5.pth", "rwkv-6.pth"]


def test_a_new_run_in_the_same_folder_is_measured(node, run):
    for number in (50, 100):
        run.write(f"rwkv-{number}.pth")
    watch(node, run)
    until_states(node, ("rwkv-50.pth", "superseded"), ("rwkv-100.pth", "done"))
    run.write("rwkv-10.pth")
    until_states(node, ("rwkv-50.pth", "superseded"), ("rwkv-100.pth", "done"), ("rwkv-10.pth", "done"))


def test_jobs_of_a_file_that_is_torn_are_withdrawn_and_hold_up_nothing(node, run):
    node.cli("pause", "--queue")
    watch(node, run, "--policy", "all", "--most-waiting", "1")
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    os.truncate(run.folder / "rwkv-1.pth", 1000)
    until_states(node, ("rwkv-1.pth", "vanished"), ("rwkv-1.pth", "parked"))
    run.write("rwkv-2.pth")
    node.until(lambda: ("rwkv-2.pth", "dispatched") in states(node), "the next one is queued")
    assert [state for _, state in jobs(node)] == ["stopped", "queued"]


def test_a_touch_does_not_undo_what_an_operator_wants(node, run):
    for name in ("rwkv-1.pth", "rwkv-2.pth"):
        run.write(name)
    watch(node, run, "--most-waiting", "1")
    until_states(node, ("rwkv-1.pth", "superseded"), ("rwkv-2.pth", "done"))
    node.cli("pause", "--queue")
    run.write("rwkv-3.pth")
    until_states(node, ("rwkv-1.pth", "superseded"), ("rwkv-2.pth", "done"), ("rwkv-3.pth", "dispatched"))
    node.cli("watch", "retry", "w1", "rwkv-1.pth")
    node.until(lambda: states(node)[0] == ("rwkv-1.pth", "ready"), "it waits for room")
    run.touch("rwkv-1.pth")
    node.cli("resume", "--queue")
    node.until(lambda: ("rwkv-1.pth", "done") in states(node), "it is measured")


def test_a_checkpoint_follows_its_jobs_and_says_what_is_missing(node, run):
    node.cli("pause", "--queue")
    node.cli(
        "watch", "add", str(run.folder), "--settle", "1", "--only-datasets", "demo_choice", "gsm8k", "--limit", "2"
    )
    run.write("rwkv-1.pth")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    node.cli("stop", "j1")
    until_states(node, ("rwkv-1.pth", "parked"))
    node.cli("resume", "j1")
    until_states(node, ("rwkv-1.pth", "dispatched"))
    node.cli("resume", "--queue")
    until_states(node, ("rwkv-1.pth", "done"))
    reason = checkpoints(node)[0]["reason"]
    assert reason.startswith("1 of 1 job done; left out: ")
    assert "gsm8k" in reason
    assert node.cli("watch", "retry", "w1", "rwkv-1.pth").returncode == 0
    until_states(node, ("rwkv-1.pth", "done"))


POINTS = ("watch-in-step", "watch-after-dispatch", "before-dispatch-commit", "after-dispatch-commit")
SLOW_POINTS = [pytest.param(one, marks=pytest.mark.slow("kills")) for one in POINTS[2:]]


@pytest.mark.parametrize("point", [*POINTS[:2], *SLOW_POINTS])
def test_a_crash_between_seen_and_queued_leaves_neither_or_both(new_node, run, point):
    node = new_node().start()
    watch(node, run, "--policy", "all")
    node.terminate()
    run.write("rwkv-1.pth")
    node.start(RWKVCTL_CRASH_AT=point)
    node.daemon.wait()
    node.start()
    until_states(node, ("rwkv-1.pth", "done"))
    assert jobs(node) == [("g1x-rwkv-1", "done")]


KILLS = 60
"""How often the daemon is killed in the slow test."""


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, marks=pytest.mark.timeout(600)),
        pytest.param(KILLS, marks=[pytest.mark.slow("kills"), pytest.mark.timeout(600 + 20 * KILLS)]),
    ],
)
def test_whenever_the_daemon_is_killed_each_content_is_measured_once(new_node, run, kills):
    node = new_node().start()
    watch(node, run, "--policy", "all")
    dice = random.Random(kills)
    for _ in range(kills):
        for _ in range(dice.randrange(1, 4)):
            run.act()
        seen = len(checkpoints(node))
        if dice.random() < 0.7:  # else before anything of it was seen
            node.until(lambda seen=seen: len(checkpoints(node)) > seen or is_quiet(node), "the daemon has seen more")
        time.sleep(dice.random() * 2)  # a kill at any moment of what follows
        node.kill()
        node.start()
    node.until(lambda: is_quiet(node) and knows(node, run), "everything is measured")
    assert_measured_once(node, run)


def is_quiet(node):
    """Whether nothing in the folder is still to come to an end."""
    return not any(state in {"settling", "ready", "dispatched"} for _, state in states(node))


def knows(node, run):
    """Whether every file that is there was seen as it is."""
    known = {one["sha256"] for one in checkpoints(node)}
    return all(sha256_of(number) in known for number in run.whole.values())


def sha256_of(number):
    return hashlib.sha256(content(number)).hexdigest()


def assert_measured_once(node, run):
    """Every content that stands there has exactly one job that is done, and none has two."""
    with closing(sqlite3.connect(f"file:{node.home / 'store.sqlite'}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT weights_sha256, state, detail FROM job").fetchall()
        watched = store.execute("SELECT name, sha256, state, session FROM watched").fetchall()
        sessions = {one for (one,) in store.execute("SELECT id FROM session").fetchall()}
        caused = {one for (one,) in store.execute("SELECT target FROM audit WHERE verb = 'watch'").fetchall()}
    times = Counter(sha256 for sha256, _, _ in rows)
    done = {sha256 for sha256, state, _ in rows if state == "done"}
    assert max(times.values()) == 1, times
    assert {sha256_of(number) for number in run.whole.values()} <= done
    made = {sha256_of(number) for number in (*run.whole.values(), *run.gone)}
    assert times.keys() <= made
    assert {session for _, _, _, session in watched if session} <= sessions == caused
