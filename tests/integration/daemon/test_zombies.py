"""Real processes of every class on GPUs of a fake NVML: each gets its verdict, and only an orphan is ever ended."""

import asyncio
import os
import re
import select
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, wait_for

from rwkv_daemon.gpus.zombies.procfs import Machine
from rwkv_daemon.store import open_store
from rwkv_daemon.workers import crash_points
from rwkvctl.protocol.errors import RefusedError

OVER = "2026-01-01T00:00:00.000Z"
SPIN = """
import threading
threading.Thread(target=lambda: [sum(range(99999)) and time.sleep(0.02) for _ in iter(int, 1)]).start()
"""


@dataclass
class Site:
    """A daemon that watches two fake GPUs, and knows attempts that are over."""

    node: Any
    nvml: Any
    plant: Any

    @property
    def socket(self) -> str:
        return str(self.node.socket)

    def over(self) -> str:
        """The marker of an engine that ended long ago, written into the store while no daemon runs."""
        marker = str(uuid.uuid4())
        with sqlite3.connect(self.node.home / "store.sqlite") as db:
            db.execute(
                "INSERT INTO engine (uuid, model, weights_path, weights_sha256, numerics, lease, state, socket, "
                "started, ended) VALUES (?, 'm', '/w', 'w', 'fp32', 'GPU-x', 'gone', '', ?, ?)",
                (marker, OVER, OVER),
            )
        db.close()
        return marker

    def listed(self) -> dict[int, dict[str, Any]]:
        """Every holder by its pid."""
        return {item["pid"]: item for item in self.node.api.get("/v1/zombies").value["items"]}

    def wait_for_class(self, pid: int, cls: str) -> dict[str, Any]:
        self.node.until(lambda: self.listed().get(pid, {}).get("cls") == cls, f"pid {pid} is {cls}")
        return self.listed()[pid]

    def reaped(self) -> list[dict[str, Any]]:
        return list(self.node.api.get("/v1/zombies").value.get("reaped", []))

    def wait_for_outcome(self, pid: int) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [item for item in self.reaped() if item["pid"] == pid]

        self.node.until(found, f"pid {pid} has an outcome")
        return found()[0]

    def release_when_gone(self, pid: int) -> None:
        """What a driver does: the memory of a process is free when it has ended."""
        wait_for(lambda: not self.plant.lives(pid), f"pid {pid} has ended", self.node.log)
        self.nvml.end(pid)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with sqlite3.connect(self.node.home / "store.sqlite") as db:
            db.row_factory = sqlite3.Row
            found = [dict(row) for row in db.execute(sql)]
        db.close()
        return found

    def start(self, **markers: str) -> None:
        self.node.start(**markers)


@pytest.fixture
def site(new_node: Callable[..., Any], fake_nvml: Any, plant: Any) -> Callable[..., Site]:
    """Makes a site with an empty store, and no daemon yet."""

    def make(**settings: str) -> Site:
        fake_nvml.gpus(2)
        quick = {"reap_grace_s": "1", "reap_idle_s": "2", "stop_term_s": "1"}
        machine = {"test_dev": str(plant.dev), "test_namespace": "own"}
        made = Site(new_node(**machine | quick | settings), fake_nvml, plant)
        asyncio.run(empty_store(made.node.home / "store.sqlite"))
        return made

    return make


async def empty_store(path: Path) -> None:
    await (await open_store(path)).close()


def is_root() -> bool:
    return os.geteuid() == 0


def test_an_idle_orphan_is_ended_and_its_memory_is_free(site: Callable[..., Site]) -> None:
    here = site(reap="auto")
    pid = here.plant.start(marker=here.over())
    here.nvml.process(0, pid, mem=8 * 2**30)
    here.start()
    here.release_when_gone(pid)
    outcome = here.wait_for_outcome(pid)
    assert outcome["outcome"] == "freed"
    assert outcome["by"] == "the daemon"
    assert "8.0 GiB on GPU 0 is free again" in outcome["text"]
    steps = [row["step"] for row in here.rows("SELECT step FROM reap_event ORDER BY id")]
    assert steps == ["intent", "SIGTERM", "outcome"]
    trail = here.rows("SELECT verb, target, outcome, name FROM audit WHERE verb = 'reap' ORDER BY id")
    assert [(row["target"], row["outcome"], row["name"]) for row in trail] == [
        (f"pid {pid}", "intent", "daemon"),
        (f"pid {pid}", "freed", "daemon"),
    ]


def test_one_that_ignores_sigterm_is_killed_once(site: Callable[..., Site]) -> None:
    here = site(reap="auto")
    pid = here.plant.start("signal.signal(signal.SIGTERM, signal.SIG_IGN)", marker=here.over())
    here.nvml.process(0, pid)
    here.start()
    here.release_when_gone(pid)
    assert "ended after SIGKILL" in here.wait_for_outcome(pid)["text"]
    steps = [row["step"] for row in here.rows("SELECT step FROM reap_event ORDER BY id")]
    assert steps == ["intent", "SIGTERM", "SIGKILL", "outcome"]


def test_a_dead_first_thread_with_a_live_one_is_ended(site: Callable[..., Site], threaded: Any) -> None:
    """`ps` calls it defunct; its memory is held all the same, and it can be ended."""
    here = site(reap="auto", reap_idle_s="5")  # time to be seen
    pid = threaded.thread_only(here.over())
    wait_for(lambda: getattr(Machine().stat(pid), "state", "") == "Z", "its first thread has ended")
    here.nvml.process(0, pid)
    here.start()
    assert here.wait_for_class(pid, "orphan")["state"] == "Z"
    pidfd = here.plant.pidfds[pid]
    wait_for(lambda: has_ended(pidfd), "its last thread has ended", here.node.log)
    here.nvml.end(pid)
    assert here.wait_for_outcome(pid)["outcome"] == "freed"


def has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def test_an_escapee_that_no_list_names_is_found_by_its_device_file(site: Callable[..., Site]) -> None:
    """A child in a session of its own that inherited the file; its parent is gone, and NVML lists nobody."""
    here = site(reap="auto", reap_idle_s="5")
    escape = "child = os.fork()\nif child: print('ready', child, flush=True); os._exit(0)\nos.setsid()"
    pid = here.plant.start(escape, marker=here.over())
    here.nvml.gpu(0, used=4 * 2**30)
    here.start()
    found = here.wait_for_class(pid, "orphan")
    assert "memory_bytes" not in found
    wait_for(lambda: not here.plant.lives(pid), "it has ended", here.node.log)
    here.nvml.gpu(0, used=0)
    assert here.wait_for_outcome(pid)["outcome"] == "freed"


def test_every_other_class_is_left_alone(site: Callable[..., Site]) -> None:
    """All of them beside one orphan, with the daemon at liberty to act: the orphan goes, everybody else lives on."""
    here = site(reap="auto", protect_commands="*keep-me*")
    marker, plant = here.over(), here.plant
    planted = {
        plant.start(): "foreign",
        plant.start("print('ready', os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGSTOP)"): "foreign",
        plant.start("open('/proc/self/comm', 'w').write('a) R 1 (x')"): "foreign",
        plant.start(marker=str(uuid.uuid4())): "foreign",
        plant.start("open('/proc/self/comm', 'w').write('keep-me')", marker=marker): "protected",
    }
    if is_root():
        planted[plant.shell(marker=marker, user=65534)] = "other-user"
        outer = plant.start(marker=marker, prefix=("unshare", "--pid", "--fork", "--kill-child"))
        planted[child_of(outer)] = "container"
    parent = plant.start("child = os.fork()\nif not child: os._exit(0)")
    dead, orphan = child_of(parent), plant.start(marker=marker)
    for pid in (*planted, dead, orphan):
        here.nvml.process(0, pid)
    here.start()
    for pid, cls in planted.items():
        assert f"pid {pid} " in here.wait_for_class(pid, cls)["verdict"]
    assert f"when pid {parent} (python" in here.wait_for_class(dead, "defunct")["verdict"]
    here.release_when_gone(orphan)
    assert here.wait_for_outcome(orphan)["outcome"] == "freed"
    assert [pid for pid in planted if not plant.lives(pid)] == []
    assert [item["pid"] for item in here.reaped()] == [orphan]
    for pid in (*planted, dead):
        if planted.get(pid) != "foreign":
            start = here.listed()[pid]["start_ticks"]
            refused = here.node.cli("reap", str(pid), "--start", str(start), "--yes", check=False)
            assert refused.returncode == 5, refused.stdout
            assert "Not ended:" in refused.stderr
    assert [pid for pid in planted if not plant.lives(pid)] == []


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def test_our_own_warm_engine_is_nobody_s_zombie(site: Callable[..., Site]) -> None:
    """Memory held, nothing computed for long: our normal state between two jobs."""
    here = site(reap="auto", test_device="cpu")
    here.start()
    job = here.node.dispatch(limit=2)[0]
    here.node.wait_for_state(job, "done")
    engine = here.node.engine_record()
    here.nvml.process(0, engine.pid)
    found = here.wait_for_class(engine.pid, "ours")
    assert f"belongs to {found['attempt']}, which runs" in found["verdict"]
    refused = here.node.cli("reap", str(engine.pid), "--start", str(found["start_ticks"]), "--yes", check=False)
    assert refused.returncode == 5
    assert here.plant.lives(engine.pid)


def test_an_operator_is_asked_and_says_yes(site: Callable[..., Site]) -> None:
    here = site()
    pid = here.plant.start(marker=here.over(), minor=1)
    here.nvml.process(1, pid, mem=2**30)
    here.start()
    here.node.until(lambda: any("reap" in note for note in notes(here)), "status says it")
    command = notes(here)[0].split("`")[1].split()
    assert command[:3] == ["rwkvctl", "reap", str(pid)]
    told = [row["text"] for row in here.rows("SELECT text FROM event WHERE kind = 'zombie'")]
    assert [ageless(text) for text in told] == [ageless(note) for note in notes(here)]
    dry = here.node.cli("reap", str(pid))
    assert "SIGTERM" in dry.stdout
    assert "Nothing was done" in dry.stderr
    assert here.plant.lives(pid)
    releasing = threading.Thread(target=here.release_when_gone, args=(pid,))
    releasing.start()
    done = here.node.cli(*command[1:])
    releasing.join()
    assert "is free again" in done.stderr
    assert here.reaped()[0]["by"] != "the daemon"
    again = here.node.cli(*command[1:], check=False)
    assert again.returncode == 4


def ageless(text: str) -> str:
    """A sentence without the age of the process in it."""
    return re.sub(r", [\d.]+ \w+\)", ")", text, count=1)


def notes(here: Site) -> list[str]:
    return [note for note in here.node.api.get("/v1/status").value.get("notes", []) if "rwkvctl reap" in note]


def test_a_foreign_process_goes_only_by_its_pid_and_start(site: Callable[..., Site]) -> None:
    here = site()
    pid = here.plant.start()
    here.nvml.process(0, pid)
    here.start()
    start = here.wait_for_class(pid, "foreign")["start_ticks"]
    wrong = here.node.cli("reap", str(pid), "--start", str(start - 1), "--yes", check=False)
    assert (wrong.returncode, here.plant.lives(pid)) == (5, True)
    assert f"did not start at {start - 1}" in wrong.stderr
    unnamed = here.node.cli("reap", str(pid), "--yes", check=False)
    assert (unnamed.returncode, here.plant.lives(pid)) == (2, True)
    assert here.node.cli("reap", "1234567", check=False).returncode == 4
    releasing = threading.Thread(target=here.release_when_gone, args=(pid,))
    releasing.start()
    assert here.node.cli("reap", str(pid), "--start", str(start), "--yes").returncode == 0
    releasing.join()


@pytest.mark.parametrize("rule", ["util", "log", "cpu"])
def test_an_orphan_with_a_sign_of_life_is_left_alone(site: Callable[..., Site], rule: str) -> None:
    """Utilisation that the driver does not say counts as use."""
    here = site(reap="auto")
    marker = here.over()
    pid = here.plant.start(SPIN if rule == "cpu" else "", marker=marker)
    here.nvml.process(0, pid)
    if rule == "util":
        here.nvml.gpu(0, util=-1)
    stop = threading.Event()
    log = here.node.home / "runs" / "engines" / "e1" / "log.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    writing = threading.Thread(target=grow, args=(log, stop))
    if rule == "log":
        writing.start()
    here.start()
    here.wait_for_class(pid, "orphan")

    def evidence() -> dict[str, bool]:
        rules_ = here.node.api.get("/v1/zombies", pid=pid).value["items"][0].get("rules", [])
        return {item["name"]: item["holds"] for item in rules_ if item["part"] == "evidence"}

    here.node.until(lambda: evidence().get("watched"), "it was watched for long enough")
    missing = {"util": "idle", "log": "no log", "cpu": "no CPU time"}[rule]
    assert {name for name, holds in evidence().items() if not holds} == {missing}
    assert here.plant.lives(pid)
    assert here.rows("SELECT * FROM reap_event") == []
    stop.set()
    if rule == "log":
        writing.join()


def grow(path: Path, stop: threading.Event) -> None:
    while not stop.wait(0.1):
        with path.open("a") as file:
            file.write("still here\n")


POINTS = [point for point in crash_points.POINTS if point.startswith("reap-")]


@pytest.mark.parametrize("point", POINTS)
def test_a_daemon_that_dies_half_way_takes_it_up_again(site: Callable[..., Site], point: str) -> None:
    """What somebody asked for is done once and has one outcome, whenever the daemon dies."""
    here = site(reap="off")
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    pid = here.plant.start(stubborn if "SIGKILL" in point else "")
    here.nvml.process(0, pid)
    here.start(RWKVCTL_CRASH_AT=point)
    start = here.wait_for_class(pid, "foreign")["start_ticks"]
    releasing = threading.Thread(target=here.release_when_gone, args=(pid,))
    releasing.start()
    here.node.cli("reap", str(pid), "--start", str(start), "--yes", check=False)
    here.node.daemon.wait(LIMIT_S)
    intents = here.rows("SELECT * FROM reap_event WHERE step = 'intent'")
    assert len(intents) == (0 if point == "reap-before-intent" else 1)
    here.start()
    if point == "reap-before-intent":
        here.wait_for_class(pid, "foreign")
        here.node.cli("reap", str(pid), "--start", str(start), "--yes")
    assert here.wait_for_outcome(pid)["outcome"] == "freed"
    assert not here.plant.lives(pid)
    releasing.join()
    assert len(here.rows("SELECT * FROM reap_event WHERE step = 'outcome'")) == 1
    assert len(here.rows("SELECT * FROM reap_event WHERE step = 'SIGKILL'")) <= 2


def test_a_gpu_that_hangs_is_not_known_and_nothing_on_it_is_ended(site: Callable[..., Site]) -> None:
    here = site(reap="auto", reap_idle_s="3", sampler_deadline_s="4")
    pid = here.plant.start(marker=here.over())
    here.nvml.process(0, pid)
    here.start()
    here.wait_for_class(pid, "orphan")
    here.nvml.rule("hang nvmlDeviceGetMemoryInfo_v2 0")
    here.node.until(lambda: pid not in here.listed(), "the GPU is unknown")
    start = str(Machine().stat(pid).start_ticks)
    refused = here.node.cli("reap", str(pid), "--start", start, "--yes", check=False)
    assert refused.returncode == 4
    assert "not known just now" in refused.stderr
    assert here.plant.lives(pid)
    assert here.rows("SELECT * FROM reap_event") == []


def test_an_act_of_its_own_is_closed_by_the_next_daemon(site: Callable[..., Site]) -> None:
    here = site(reap="auto")
    pid = here.plant.start(marker=here.over())
    here.nvml.process(0, pid)
    here.start(RWKVCTL_CRASH_AT="reap-after-intent")
    here.node.daemon.wait(LIMIT_S)
    here.start()
    assert here.wait_for_outcome(pid)["outcome"] == "interrupted"
    assert here.plant.lives(pid)


def test_in_a_container_nothing_is_ended_and_nothing_blamed(site: Callable[..., Site]) -> None:
    if not is_root():
        pytest.skip("needs root: a PID namespace")
    here = site(reap="auto", test_namespace="")
    pid = here.plant.start(marker=here.over())
    here.nvml.process(0, pid)
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m", "rwkv_daemon"]
    with (here.node.home.parent / "daemon.log").open("ab") as log:
        here.node.daemon = subprocess.Popen(inside, env=here.node.environment, stdout=log, stderr=log)
    here.node.until(here.node.answers, "the daemon answers")
    found = here.wait_for_class(pid, "container")
    assert "cannot know whose it is" in found["verdict"]
    assert "PID namespace of its own" in here.node.api.get("/v1/zombies").value["observing"]
    with pytest.raises(RefusedError):
        here.node.api.post("/v1/reap", {"pid": pid, "start_ticks": 1, "yes": True})
    assert here.plant.lives(pid)
