"""Runs of an outside harness: what one can see and reach, and what is left of one that is paused, stopped or killed.
Results and refusals are in `test_harness.py`."""

import os
import re
import socket
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness_node import HarnessNode
from live_node import LiveNode, kill_worker
from waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[3]
SECRET = "sk-of-the-daemon"


@pytest.fixture
def own(new_node: Any, built_harness: Path) -> HarnessNode:
    """A node of a test's own, which is not started."""
    one = HarnessNode(new_node())
    one.install(built_harness)
    return one


# -- what a run can see


@pytest.fixture
def apart(fork_server: Any, built_harness: Path) -> Iterator[HarnessNode]:
    """A node that does not lie in a folder for temporary files: those are hidden anyway. Not started."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="h", dir=ROOT / "build") as folder:
        live = LiveNode(Path(folder) / "n" / "h", forks=fork_server)
        live.home.mkdir(parents=True)
        one = HarnessNode(live)
        person = Path(folder) / "person"
        person.mkdir()
        (person / "key").write_text(SECRET)
        (live.home / "config.toml").write_text("max_restarts = 20\n")
        one.harnesses.mkdir(parents=True)
        (one.harnesses.parent / "config.toml").write_text(f"# {SECRET}\n")
        live.settings |= {"HOME": str(person), "HF_TOKEN": SECRET, "OPENAI_API_KEY": SECRET, "JUDGE_TOKEN": SECRET}
        yield one
        live.close()


@pytest.fixture
def port() -> Iterator[int]:
    """A port of the node's loopback on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def seen(one: HarnessNode, built_harness: Path, port: int, *, network: bool) -> dict[str, Any]:
    """What a run says that it sees, in which nothing may be read or written that is the daemon's or its user's."""
    home, config = one.live.home, one.harnesses.parent
    look = [home, home / "config.toml", home / "store.sqlite", config, config / "config.toml", one.harnesses,
            home / "runs", home / "weights", Path(one.live.settings["HOME"]), Path(one.live.settings["HOME"]) / "key",
            home / "run"]  # fmt: skip
    one.install(built_harness, network=network, environment={"LOOK": ",".join(map(str, look)), "PORT": str(port)})
    one.live.start()
    (job,) = one.ended("spy")
    assert job["state"] == "done", job["detail"]
    assert (home / "store.sqlite").is_file(), "the store lies there"
    return one.report(job["id"])


@pytest.mark.parametrize("network", [False, True])
def test_a_run_sees_nothing_of_the_daemon_and_its_user(
    apart: HarnessNode, built_harness: Path, port: int, *, network: bool
) -> None:
    found = seen(apart, built_harness, port, network=network)
    assert (found["read"], found["written"], found["not_written"]) == ([], [], [])
    assert found["environments"] == [], "of no other process"
    assert not found["remounted"]
    assert {line.split()[1] for line in found["capabilities"]} == {"0" * 16}
    assert SECRET not in " ".join(found["environment"].values())
    assert {"HF_TOKEN", "OPENAI_API_KEY", "JUDGE_TOKEN", "RWKVCTL_HOME", "XDG_CONFIG_HOME", "PYTHONPATH"}.isdisjoint(
        found["environment"]
    )
    assert found["environment"]["HOME"].startswith(found["environment"]["RWKVCTL_OUT"])
    assert found["port"] == network
    assert (found["interfaces"] == ["lo"]) or network
    if not network:
        assert found["environment"]["RWKVCTL_BASE_URL"] == "http://127.0.0.1:8000/v1"
    assert found["status"] == {
        "models": 200, "no token": 401, "wrong token": 401, "health": 401,
        "generate": 404, "score": 404, "stats": 404, "bad": 400,
    }  # fmt: skip


def test_the_relay_of_a_run_with_a_network_wants_its_token(own: HarnessNode) -> None:
    own.write(network=True)
    own.live.engines_do(answers=0)
    own.live.start()
    (job,) = own.start("sums")
    own.live.until(lambda: "measures" in own.log_of(job), "it measures")
    (base,) = re.findall(r"run sums (\S+)/v1 ", own.log_of(job))
    for token in ("", "Bearer sk-1"):
        asked = urllib.request.Request(f"{base}/v1/models", headers={"authorization": token})
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(asked, timeout=LIMIT_S)
        with caught.value:
            assert caught.value.code == 401
    own.live.engines_do()
    assert own.live.wait_for_state(job, "done", "failed")["state"] == "done"


# -- how runs end


def underway(one: HarnessNode, task: str = "leaves") -> str:
    """A job of which two of four rows are answered, and none more will be."""
    one.live.engines_do(answers=2)
    one.live.start()
    (job,) = one.start(task)
    one.live.until(lambda: answered(one, job) == 2, "two rows are answered")
    assert len(one.processes()) == (2 if task == "leaves" else 1), "the harness, and what it has started"
    return job


def answered(one: HarnessNode, job: str) -> int:
    """How many answers were kept of a job: each begins with the head that `rwkv_daemon.harness.answers` writes."""
    file = one.live.home / "runs" / job / "harness-answers"
    data, found = file.read_bytes() if file.is_file() else b"", 0
    while len(data) > 36:
        data, found = data[36 + int.from_bytes(data[32:36], "big") :], found + 1
    return found


def goes_on(one: HarnessNode, job: str) -> None:
    """The job ends, though its engine gives only the two answers that it lacks; each sample is there once."""
    one.live.engines_do(answers=4)
    ended = one.live.wait_for_state(job, "done", "failed")
    assert ended["state"] == "done", ended["detail"]
    assert ended["score"]["n"] == 4
    assert ended["score"]["provenance"]["task"]["requests"] == 4
    assert Counter(sample["row"] for sample in one.live.samples(job)) == dict.fromkeys(range(4), 1)
    assert len(one.live.api.get("/v1/scores").value["items"]) == 1
    assert not (one.live.home / "runs" / job / "harness-answers").exists()
    one.live.until(lambda: one.processes() == [], "nothing of the harness is left")


def test_a_paused_job_goes_on_with_the_answers_that_it_had(own: HarnessNode) -> None:
    job = underway(own)
    own.live.cli("pause", job, check=False)  # it may say that it is not paused yet
    own.live.wait_for_state(job, "paused")
    assert own.processes() == []
    assert own.live.samples(job) == []
    own.live.cli("resume", job)
    goes_on(own, job)
    assert own.live.job(job)["attempt"] == 2


def test_a_stopped_job_leaves_no_process(own: HarnessNode) -> None:
    job = underway(own)
    own.live.cli("stop", job)
    own.live.wait_for_state(job, "stopped")
    assert own.processes() == []
    own.live.cli("resume", job)
    goes_on(own, job)


def test_a_killed_runner_takes_its_harness_along_and_is_started_again(own: HarnessNode) -> None:
    job = underway(own)
    before = {words for words in own.processes() if "lingers" in words}
    assert before
    assert kill_worker(own.live.runner_record(job))
    own.live.until(lambda: own.live.job(job)["attempt"] == 2, "it is tried again")
    goes_on(own, job)


def test_a_killed_harness_is_started_again(own: HarnessNode) -> None:
    job = underway(own, "sums")
    pids = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if is_run(path, own)]
    assert len(pids) == 1
    os.kill(pids[0], 9)
    own.live.until(lambda: own.live.job(job)["attempt"] == 2, "it is tried again")
    goes_on(own, job)


def is_run(cmdline: Path, one: HarnessNode) -> bool:
    try:
        words = cmdline.read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(one.harnesses / "fake" / "fake_harness.py") in words and b"run" in words


def test_a_killed_daemon_is_not_missed(own: HarnessNode) -> None:
    """The runner goes on, ends while there is no daemon, and the next daemon stores what it left."""
    job = underway(own)
    own.live.kill()
    own.live.engines_do(answers=4)
    record = own.live.runner_record(job)
    assert record is not None
    while (found := own.live.runner_record(job)) and not found.done:
        own.live.engines_do(answers=4)
    own.live.start()
    goes_on(own, job)
    assert own.live.job(job)["attempt"] == 1


def test_daemon_and_runner_are_killed(own: HarnessNode) -> None:
    job = underway(own)
    own.live.kill()
    assert kill_worker(own.live.runner_record(job))
    own.live.start()
    goes_on(own, job)
    assert own.live.job(job)["attempt"] == 2


def test_a_daemon_adopts_a_run_that_still_works(own: HarnessNode) -> None:
    job = underway(own)
    own.live.kill()
    own.live.start()
    goes_on(own, job)
    assert own.live.job(job)["attempt"] == 1


def test_a_harness_that_was_removed_meanwhile_is_told_of(own: HarnessNode) -> None:
    job = underway(own, "leaves")
    own.live.cli("pause", job, check=False)  # it may say that it is not paused yet
    own.live.wait_for_state(job, "paused")
    (tasks,) = (own.live.home / "harnesses" / "fake").glob("*/tasks.json")
    tasks.unlink()
    own.live.cli("resume", job)
    ended = own.live.wait_for_state(job, "failed", "held")
    assert "rwkvctl harness build fake" in ended["detail"]


@pytest.mark.parametrize("point", ["after-worker-started", "after-ingest-commit", "before-score-commit",
                                   "after-score-commit"])  # fmt: skip
def test_a_daemon_that_dies_at_a_crash_point_has_each_sample_and_one_score(own: HarnessNode, point: str) -> None:
    own.live.engines_do(answers=4)
    own.live.start(RWKVCTL_CRASH_AT=point)
    (job,) = own.live.dispatch(harness="fake", only_datasets=["sums"])
    assert own.live.daemon is not None
    assert own.live.daemon.wait(LIMIT_S) == -9
    own.live.start()
    goes_on(own, job)
