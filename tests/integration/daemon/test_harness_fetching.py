"""The rows of a task of an outside harness: fetched once, with the network and without the model, and only read by its
runs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from harness_node import HarnessNode
from waiting import wait_for

from rwkvctl.settings import process_locks

SECRET = "sk-of-the-daemon"
FETCH = ["{python}", "{own}/fake_harness.py", "fetch", "{tasks}", "{cache}"]
ENVIRONMENT = {"LOOK": "", "PORT": "1", "ROWS": "{cache}", "OPENAI_API_KEY": "{api_key}"}


@pytest.fixture
def fetching(new_node: Any, built_harness: Path) -> HarnessNode:
    """A started node whose fake harness fetches rows."""
    one = HarnessNode(new_node())
    options = {"limit": ["--limit", "{value}"]}
    one.install(built_harness, fetch=FETCH, environment=ENVIRONMENT, options=options)
    one.live.settings["HF_TOKEN"] = SECRET
    one.live.start()
    return one


def fetched(one: HarnessNode) -> list[Path]:
    """The folders of fetched rows, with the locks and the parts of unfinished ones."""
    return sorted(one.live.home.glob("harnesses/fake/*/fetched/*"))


def test_rows_are_fetched_once_without_the_model_and_runs_cannot_change_them(fetching: HarnessNode) -> None:
    first, second = (fetching.report(fetching.ended("spy", limit=limit)[0]["id"]) for limit in (1, 2))
    assert first["cache"] == second["cache"], "the second run reads what the first has fetched"
    ((_, content),) = first["cache"].items()
    in_fetch, in_run = json.loads(content), first["environment"]
    assert "lo" in in_fetch["interfaces"]
    assert len(in_fetch["interfaces"]) > 1, "it has the network of the node"
    assert first["interfaces"] == ["lo"]
    assert in_fetch["environment"]["ROWS"] == in_run["ROWS"], "a program may keep the path"
    assert in_fetch["environment"]["RWKVCTL_TASKS"] == "spy"
    assert {in_fetch["environment"][name] for name in ("OPENAI_API_KEY", "RWKVCTL_API_KEY", "RWKVCTL_BASE_URL")} == {""}
    assert in_run["OPENAI_API_KEY"]
    assert {"HF_TOKEN", "RWKVCTL_HOME", "XDG_CONFIG_HOME"}.isdisjoint(in_fetch["environment"])
    assert first["not_written"] == [in_run["RWKVCTL_CACHE"]]


def test_rows_that_cannot_be_fetched_fail_the_job_and_leave_none(fetching: HarnessNode) -> None:
    (job,) = fetching.ended("unfetched")
    assert job["state"] == "failed"
    assert "the rows of unfetched could not be fetched (exit code 3)" in job["detail"]
    assert "the last words: the hub has no such rows" in job["detail"]
    assert not [path for path in fetched(fetching) if not path.suffix]
    assert f"`rwkvctl resume {job['id']}` tries again" in job["detail"]
    fetching.live.cli("resume", job["id"])
    fetching.live.until(
        lambda: (found := fetching.live.job(job["id"]))["state"] == "failed" and found["attempt"] > job["attempt"],
        "the rows were fetched again in vain",
    )


def test_a_fetch_that_was_stopped_begins_anew(fetching: HarnessNode) -> None:
    (job,) = fetching.start("slow")
    wait_for(lambda: any("fetch" in one for one in fetching.processes()), "the rows are fetched")
    fetching.live.cli("stop", job)
    fetching.live.wait_for_state(job, "stopped")
    assert fetching.processes() == []
    (part,) = [path for path in fetched(fetching) if path.suffix == ".part"]
    (part / "half").write_text("x")
    for copy in fetching.live.home.glob("harnesses/fake/*/own/*"):
        (copy / "go").touch()
    fetching.live.cli("resume", job)
    assert fetching.live.wait_for_state(job, "done", "failed")["state"] == "done"
    (rows,) = [path for path in fetched(fetching) if not path.suffix]
    assert [path.name[:5] for path in rows.iterdir()] == ["rows-"], "nothing is left of the first fetch"


def test_a_run_waits_while_another_one_fetches_the_same_rows(fetching: HarnessNode) -> None:
    (first,) = fetching.ended("sums")
    (rows,) = [path for path in fetched(fetching) if not path.suffix]
    descriptor = os.open(rows.with_suffix(".lock"), os.O_RDWR)
    process_locks.hold(descriptor)
    (job,) = fetching.start("sums", limit=2)
    folder = fetching.live.home / "runs" / job
    wait_for(lambda: [path for path in folder.glob("alive-*") if path.read_text()], "the run waits for the rows")
    fetching.live.cli("pause", job)
    fetching.live.wait_for_state(job, "paused")
    assert fetching.log_of(job).count("runs ") == 0
    os.close(descriptor)
    fetching.live.cli("resume", job)
    assert fetching.live.wait_for_state(job, "done", "failed")["state"] == "done"
    assert first["score"]["n"] == 4
