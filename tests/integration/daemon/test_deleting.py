"""Jobs that are deleted, brought back, and removed for good; a real daemon and real workers."""

import contextlib
import signal
import sqlite3

import pytest
from waiting import LIMIT_S

from rwkv_daemon.workers import crash_points
from rwkvctl.protocol.errors import Exit, RwkvctlError

SAMPLES = 8
WORK = {"limit": SAMPLES}
DELETES = [point for point in crash_points.POINTS if point.startswith("delete-")]
PRUNES = [point for point in crash_points.POINTS if point.startswith("prune-")]


def post(node, route: str, **body):
    return node.api.post(f"/v1/{route}", body).value


def only(reply):
    (item,) = reply["items"]
    return item


def done(node, **selection) -> str:
    (name,) = node.dispatch(**WORK | selection)
    node.wait_for_state(name, "done")
    return name


def listed(node, **query) -> list[str]:
    return [job["id"] for job in node.api.get("/v1/jobs", **query).value["items"]]


def scored(node) -> list[str]:
    return [score["job"] for score in node.api.get("/v1/scores").value["items"]]


def rows_left(node, name: str) -> dict[str, int]:
    """What the store has of a job, by table."""
    with contextlib.closing(sqlite3.connect(node.home / "store.sqlite")) as db:
        tables = dict.fromkeys(
            ("attempt", "prompt", "completion", "sample", "score", "deleted_score", "deletion"), "job"
        )
        counted = {
            table: db.execute(f"SELECT COUNT(*) FROM {table} WHERE {column} = ?", (name[1:],)).fetchone()[0]
            for table, column in (tables | {"job": "id"}).items()
        }
        counted["grade"] = db.execute(
            "SELECT COUNT(*) FROM grade WHERE sample NOT IN (SELECT number FROM sample)"
        ).fetchone()[0]
    return {table: count for table, count in counted.items() if count}


def test_a_deleted_job_is_nowhere_and_comes_back_as_it_was(node):
    first, last = done(node), done(node, overwrite=True)
    samples = node.samples(last)
    before = {name: node.job(last)[name] for name in ("state", "score", "finished", "done")}
    refused = node.cli("delete", last, check=False)
    assert refused.returncode == Exit.REFUSED
    assert f"Delete {last}: {SAMPLES} samples, 1 score, " in refused.stderr
    assert listed(node) == [last, first], "nobody was asked, so nothing was done"

    node.cli("delete", last, "--yes")
    assert (listed(node), scored(node)) == ([first], [first]), "the older score has its place again"
    assert listed(node, words=last) == []
    assert listed(node, state="deleted") == [last]
    assert node.api.get("/v1/status").value["counts"] == {"done": 1}
    assert [item["job"] for item in node.api.get("/v1/job-log").value["items"]] == [first]
    for gone in (f"/v1/jobs/{last}", f"/v1/jobs/{last}/samples"):
        with pytest.raises(RwkvctlError, match=f"There is no job {last}"):
            node.api.get(gone)
    assert node.api.get(f"/v1/jobs/{first}/same", row=0).value["items"] == []
    assert (node.home / "runs" / last).is_dir(), "only a prune removes files"

    node.cli("undelete", last)
    assert {name: node.job(last)[name] for name in ("state", "score", "finished", "done")} == before
    assert node.samples(last) == samples
    assert scored(node) == [last]
    verbs = [entry["verb"] for entry in node.api.get("/v1/audit").value["items"]]
    assert verbs[:2] == ["undelete", "delete"]


def test_what_is_deleted_is_work_that_can_be_dispatched_again(node):
    name = done(node)
    assert node.dispatch(**WORK) == []
    post(node, "delete", jobs=[name])
    again = done(node)
    assert again != name
    assert scored(node) == [again]


def test_a_job_that_runs_is_refused_and_one_that_waits_comes_back_stopped(node):
    node.engines_do(answers=4)
    (runs,) = node.dispatch(**WORK)
    node.wait_until_some(runs, 4)
    refused = only(post(node, "delete", jobs=[runs]))
    assert refused["error"] == f"{runs} is not deleted: it is generating; `rwkvctl stop {runs}` first"
    assert node.cli("delete", runs, "--yes", check=False).returncode == Exit.FAILED
    node.engines_do()
    node.wait_for_state(runs, "done")
    post(node, "pause", queue=True)
    waits, held = node.dispatch(limit=3)[0], node.dispatch(limit=4)[0]
    post(node, "hold", jobs=[held], why="rows")
    assert node.cli("delete", "--state", "queued", "--yes").stdout.count("deleted") == 1
    assert post(node, "loss", state="queued")["jobs"] == []
    post(node, "delete", jobs=[held, held[1:]])
    assert {only(post(node, "undelete", jobs=[name]))["state"] for name in (waits, held)} == {"stopped"}
    assert node.job(held)["reason"] == "held", "an operator's hold is lost by nothing but a release"
    assert only(post(node, "undelete", jobs=[waits])) == {"job": waits, "state": "stopped", "changed": False}


def test_the_same_request_deletes_once(node):
    name = done(node)
    first = post(node, "delete", jobs=[name], request_id="one")
    post(node, "undelete", jobs=[name])
    assert post(node, "delete", jobs=[name], request_id="one")["items"] == first["items"]
    assert node.job(name)["state"] == "done"


def test_a_prune_removes_what_was_deleted_and_nothing_else(node):
    keeps, goes = done(node), done(node, overwrite=True)
    assert "comes first" in only(post(node, "prune", jobs=[keeps]))["error"]
    post(node, "delete", jobs=[goes])
    assert node.cli("prune", "--older-than", "1d", "--yes").returncode == Exit.OK
    assert listed(node, state="deleted") == [goes], "it was deleted just now"
    assert node.cli("prune", "--older-than", "0s", check=False).returncode == Exit.REFUSED
    pruned = node.cli("prune", "--older-than", "0s", "--yes")
    assert goes in pruned.stdout
    assert rows_left(node, goes) == {}
    assert not (node.home / "runs" / goes).exists()
    assert len(node.samples(keeps)) == SAMPLES
    assert f"There is no job {goes}" in only(post(node, "undelete", jobs=[goes]))["error"]


@pytest.mark.parametrize("point", DELETES)
def test_a_deletion_is_whole_or_has_not_been(new_node, point):
    node = new_node().start(RWKVCTL_CRASH_AT=point)
    name = done(node)
    with contextlib.suppress(OSError, RwkvctlError):
        post(node, "delete", jobs=[name])
    assert node.daemon.wait(LIMIT_S) == -signal.SIGKILL
    node.start()
    assert scored(node) == [name] == listed(node)


@pytest.mark.parametrize("point", PRUNES)
def test_a_prune_is_finished_by_the_next_daemon_at_every_crash_point(new_node, point):
    node = new_node().start(RWKVCTL_CRASH_AT=point)
    keeps, goes = done(node), done(node, overwrite=True)
    post(node, "delete", jobs=[goes])
    with contextlib.suppress(OSError, RwkvctlError):
        post(node, "prune", jobs=[goes])
    assert node.daemon.wait(LIMIT_S) == -signal.SIGKILL
    node.start()
    node.until(lambda: not rows_left(node, goes), "the next daemon removes the rest")
    assert not (node.home / "runs" / goes).exists()
    assert (listed(node), len(node.samples(keeps))) == ([keeps], SAMPLES)
