"""The real daemon on a fake NVML: what it makes of a mixed node, and of what goes wrong with a GPU or its driver."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

LiveNode = Any
NewNode = Callable[..., Any]
GIB = 2**30


def gpus(node: LiveNode) -> dict[str, dict[str, Any]]:
    """The GPUs as `rwkvctl gpus` shows them, by index."""
    return {item["index"]: item for item in node.api.get("/v1/gpus").value["items"]}


def uses(node: LiveNode) -> list[str]:
    return [item["use"] for item in gpus(node).values()]


def conditions(node: LiveNode) -> list[str]:
    return [item.get("condition", "ok") for item in gpus(node).values()]


def events(node: LiveNode, kind: str) -> list[str]:
    """The sentences of stored events of one kind."""
    found = map(json.loads, node.api.stream("/v1/events", 30.0, since=0, follow="no"))
    return [event["text"] for event in found if event["kind"] == kind]


@pytest.fixture
def begin() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts real processes that hold a GPU for as long as they live; ends them all."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen(words or ["sleep", "600"]))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait()


def until(node: LiveNode, condition: Callable[[], object], saying: str) -> None:
    node.until(condition, saying)


def test_a_training_run_that_waits_is_told_from_a_zombie_and_explained_by_its_probe(
    fake_nvml: Any, new_node: NewNode, begin: Any
) -> None:
    fake_nvml.gpus(8)
    training = begin()
    for index in range(6):
        fake_nvml.process(index, training.pid, 60 * GIB).gpu(index, util=98)
    node = new_node(gpu_idle_window_s="1").start()
    until(node, lambda: uses(node) == ["busy"] * 6 + ["free"] * 2, "a training run is seen")
    assert "sleep 600 (" in gpus(node)["0"]["why"]
    assert f"pid {training.pid})" in gpus(node)["0"]["why"]
    node.cli("gpus", "reserve", "0-5", "--for", "training", "--probe", "echo step 1200")
    assert conditions(node) == ["reserved"] * 6 + ["ok"] * 2
    for index in range(6):
        fake_nvml.gpu(index, util=0)
    until(node, lambda: uses(node) == ["waiting"] * 6 + ["free"] * 2, "it evaluates and computes nothing")
    until(node, lambda: "its probe says: step 1200" in gpus(node)["5"]["why"], "its probe explains it")
    node.terminate()
    node.start()
    until(node, lambda: uses(node) == ["waiting"] * 6 + ["free"] * 2, "a new daemon sees the same")
    assert [item["reserved_for"] for item in list(gpus(node).values())[:6]] == ["training"] * 6
    assert training.poll() is None
    node.cli("gpus", "release", "0-5")
    assert conditions(node) == ["ok"] * 8
    assert gpus(node)["0"].get("probe", ()) in ((), [])


def test_a_reservation_ends_with_its_process_also_while_no_daemon_runs(
    fake_nvml: Any, new_node: NewNode, begin: Any
) -> None:
    fake_nvml.gpus(3)
    first, second = begin(), begin()
    node = new_node().start()
    until(node, lambda: uses(node) == ["free"] * 3, "three are free")
    gone = node.cli("gpus", "reserve", "0", "--for", "x", "--until-exit", str(2**22 + 1), "--json", check=False)
    assert (gone.returncode, json.loads(gone.stdout)["code"]) == (4, "no-such-process")
    assert conditions(node) == ["ok"] * 3
    node.cli("gpus", "reserve", "0", "--for", "training", "--until-exit", str(first.pid))
    node.cli("gpus", "reserve", "1", "--for", "training", "--until-exit", str(second.pid))
    node.cli("gpus", "reserve", "2", "--for", "guests")
    assert gpus(node)["0"]["reason"] == f"for training, until process {first.pid} ends"
    assert gpus(node)["0"]["until_pid"] == first.pid
    first.kill()  # and not waited for: a zombie has ended, too
    until(node, lambda: conditions(node) == ["ok", "reserved", "reserved"], "the first reservation ends")
    until(node, lambda: "GPU 0 is ok again (it was reserved)" in events(node, "gpu.state"), "its end is told")
    node.terminate()
    second.kill()
    node.start()
    until(node, lambda: conditions(node) == ["ok", "ok", "reserved"], "a new daemon sees that the second is over")


def test_a_defunct_process_makes_a_zombie_and_its_end_a_free_gpu(fake_nvml: Any, new_node: NewNode, begin: Any) -> None:
    fake_nvml.gpus(2)
    dead = begin("true")  # ended, and not waited for: a zombie until this test's end
    fake_nvml.process(1, dead.pid, 30 * GIB)
    node = new_node(reap="off").start()
    until(node, lambda: uses(node) == ["free", "zombie"], "the dead one is found")
    assert any("GPU 1 is zombie" in note for note in node.api.get("/v1/status").value["notes"])
    fake_nvml.end(dead.pid)
    until(node, lambda: uses(node) == ["free", "free"], "its memory is back")
    until(node, lambda: "GPU 1 is free (it was zombie)" in events(node, "gpu.use"), "it is told")


def test_a_card_that_is_lost_is_kept_in_mind_and_quarantined_until_somebody_has_seen_to_it(
    fake_nvml: Any, new_node: NewNode
) -> None:
    fake_nvml.gpus(3)
    uuid = fake_nvml.uuid(1)
    node = new_node().start()
    until(node, lambda: uses(node) == ["free"] * 3, "three are free")
    fake_nvml.gpu(1, lost=1)
    until(node, lambda: uses(node) == ["free", "unknown", "free"], "it is lost")
    lost = gpus(node)["1"]
    assert (lost["id"], lost["condition"], lost["why"]) == (uuid, "quarantined", "it has fallen off the bus")
    fake_nvml.gpu(1, lost=0)
    until(node, lambda: uses(node) == ["free"] * 3, "it is back")
    assert conditions(node) == ["ok", "quarantined", "ok"]
    node.kill()
    node.start()
    until(node, lambda: uses(node) == ["free"] * 3, "a new daemon has looked")
    assert conditions(node) == ["ok", "quarantined", "ok"], "the quarantine is stored"
    node.cli("gpus", "unquarantine", "1")
    assert conditions(node) == ["ok"] * 3


def test_a_card_that_is_not_counted_any_more_is_unknown_until_it_is_back_or_forgotten(
    fake_nvml: Any, new_node: NewNode
) -> None:
    fake_nvml.gpus(3)
    gone = fake_nvml.uuid(2)
    node = new_node().start()
    until(node, lambda: uses(node) == ["free"] * 3, "three are free")
    fake_nvml.remove(2)
    until(node, lambda: uses(node) == ["free", "free", "unknown"], "one is missing")
    assert gpus(node)["2"]["why"] == "the driver does not list it any more; it was GPU 2"
    fake_nvml.gpu(2)
    until(node, lambda: uses(node) == ["free"] * 3, "it is back, as it was")
    assert node.cli("gpus", "forget", "2", check=False).returncode == 5, "what is there is not forgotten"
    fake_nvml.remove(2)
    until(node, lambda: uses(node) == ["free", "free", "unknown"], "it is missing again")
    node.cli("gpus", "forget", gone)
    assert uses(node) == ["free", "free"]
    node.terminate()
    node.start()
    until(node, lambda: uses(node) == ["free", "free"], "a new daemon does not know it")


def test_xids_quarantine_or_are_counted(fake_nvml: Any, new_node: NewNode) -> None:
    fake_nvml.gpus(2)
    node = new_node().start()
    until(node, lambda: uses(node) == ["free", "free"], "both are free")
    fake_nvml.xid(0, 31).xid(1, 79)
    until(node, lambda: conditions(node) == ["ok", "quarantined"], "the second one is quarantined")
    until(node, lambda: gpus(node)["0"].get("application_xids") == 1, "the first one's is counted")
    assert gpus(node)["1"]["reason"] == "XID 79 (GPU has fallen off the bus)"
    until(node, lambda: len(events(node, "gpu.xid")) == 2, "both are told")
    assert events(node, "gpu.state") == ["GPU 1 is quarantined: XID 79 (GPU has fallen off the bus)"]


def test_instances_of_a_divided_card_are_leases_of_their_own(fake_nvml: Any, new_node: NewNode) -> None:
    fake_nvml.gpus(2).gpu(1, mig=1).rule(f"mig 1 0 total={20 * GIB}", f"mig 1 3 total={40 * GIB}")
    node = new_node().start()
    until(node, lambda: list(gpus(node)) == ["0", "1:0", "1:3"], "the instances are there")
    assert uses(node) == ["free"] * 3
    node.cli("gpus", "drain", "1", "--reason", "to be divided anew")
    assert conditions(node) == ["ok", "draining", "draining"]
    fake_nvml.rule(f"mig 1 1 total={40 * GIB}")
    until(node, lambda: list(gpus(node)) == ["0", "1:1"], "it is divided anew, and the old instances are forgotten")
    assert conditions(node) == ["ok", "ok"]


def test_two_cards_that_change_places_keep_what_is_said_of_them(fake_nvml: Any, new_node: NewNode) -> None:
    fake_nvml.gpus(2).gpu(0, uuid="GPU-aaaa0000").gpu(1, uuid="GPU-bbbb0000")
    node = new_node().start()
    until(node, lambda: uses(node) == ["free", "free"], "both are free")
    node.cli("gpus", "quarantine", "GPU-aaaa", "--reason", "it computes nonsense")
    node.terminate()
    fake_nvml.gpu(0, uuid="GPU-bbbb0000").gpu(1, uuid="GPU-aaaa0000")
    node.start()
    until(node, lambda: uses(node) == ["free", "free"], "both are free again")
    found = gpus(node)
    assert (found["1"]["id"], found["1"]["condition"]) == ("GPU-aaaa0000", "quarantined")
    assert (found["0"]["id"], found["0"].get("condition", "ok")) == ("GPU-bbbb0000", "ok")


def test_decisions_are_refused_repeated_and_explained(fake_nvml: Any, new_node: NewNode) -> None:
    fake_nvml.gpus(3)
    node = new_node().start()
    until(node, lambda: uses(node) == ["free"] * 3, "three are free")
    assert node.cli("gpus", "drain", "9", "--reason", "x", check=False).returncode == 4
    assert node.cli("gpus", "drain", "1", "--reason", " ", check=False).returncode == 2
    first = node.cli("gpus", "drain", "1,2", "--reason", "fan is loud").stdout
    again = node.cli("gpus", "drain", "1,2", "--reason", "fan is loud").stdout
    assert [line.split("\t")[:3] for line in first.splitlines()[1:]] == [[i, "draining", "yes"] for i in "12"]
    assert [line.split("\t")[:3] for line in again.splitlines()[1:]] == [[i, "draining", "no"] for i in "12"]
    assert events(node, "gpu.state") == ["GPU 1 is draining: fan is loud", "GPU 2 is draining: fan is loud"]
    node.cli("gpus", "undrain", "1-2")
    assert events(node, "gpu.state")[-1] == "GPU 2 is ok again (it was draining)"
    refused = node.api.post("/v1/gpus/probe", {"gpus": ["0"], "command": ["true"]}).value["items"]
    assert "not reserved" in refused[0]["error"]


def test_the_last_minutes_can_be_looked_at_again(fake_nvml: Any, new_node: NewNode, begin: Any) -> None:
    fake_nvml.gpus(2).gpu(1, util=50)
    fake_nvml.process(1, begin().pid, 10 * GIB)
    node = new_node().start()
    began = time.time()

    def track(index: int) -> dict[str, Any]:
        reply = node.api.get("/v1/gpus/history", since=began - 5, step_s=1).value
        return next((dict(item) for item in reply["items"] if item["index"] == str(index)), {"use": []})

    until(node, lambda: [*filter(None, track(1)["use"])][:2] == ["busy", "busy"], "two looks are recorded")
    node.kill()
    node.start()
    until(node, lambda: uses(node) == ["free", "busy"], "a new daemon looks")
    until(node, lambda: len([*filter(None, track(1)["use"])]) >= 3, "the looks of both daemons are there")
    found = track(1)
    assert {use for use in found["use"] if use} == {"busy"}
    assert {value for value in found["utilisation"] if value is not None} == {0.5}
    assert {value for value in found["memory_used_bytes"] if value is not None} == {10 * GIB}
    one = node.api.get("/v1/gpus/history", since=began - 86_400 * 3, gpu="1").value
    assert [item["id"] for item in one["items"]] == [fake_nvml.uuid(1)]
    assert one["until"] - one["since"] <= 86_400
    assert len(one["items"][0]["use"]) <= 2000
    shown = node.cli("gpus", "history", "1", "--since", "1m", "--step", "1").stdout.splitlines()
    assert shown[0].split("\t")[:3] == ["time", "gpu", "use"]
    assert len(shown) > 3


def test_somebody_who_comes_to_our_gpu_is_left_alone_and_the_score_says_so(
    fake_nvml: Any, new_node: NewNode, begin: Any
) -> None:
    fake_nvml.gpus(1)
    node = new_node().start(RWKVCTL_TEST_DEVICE="cpu")
    until(node, lambda: uses(node) == ["free"], "the GPU is free")
    node.engines_do(answers=5)
    (job,) = node.dispatch(limit=10)
    until(node, lambda: uses(node) == ["leased"], "an engine is there")
    stranger = begin()
    fake_nvml.process(0, stranger.pid, 5 * GIB)
    until(node, lambda: gpus(node)["0"].get("contended"), "the stranger is seen")
    assert f"pid {stranger.pid}" in gpus(node)["0"]["why"]
    node.engines_do()
    node.wait_for_state(job, "done")
    assert stranger.poll() is None
    (said,) = node.job(job)["score"]["provenance"]["contended"]
    assert f"pid {stranger.pid}" in said
    fake_nvml.end(stranger.pid)
    until(node, lambda: not gpus(node)["0"].get("contended"), "it is gone")
    until(node, lambda: len(events(node, "gpu.use")) == 2, "both changes are told")


def test_an_engine_whose_context_an_xid_ended_is_replaced_and_the_job_goes_on(
    fake_nvml: Any, new_node: NewNode, tmp_path: Any
) -> None:
    fake_nvml.gpus(2)
    log = tmp_path / "kmsg"
    log.touch()
    node = new_node().start(RWKVCTL_TEST_DEVICE="cpu", RWKVCTL_TEST_DEV=str(tmp_path))
    until(node, lambda: uses(node) == ["free", "free"], "both GPUs are free")
    node.engines_do(answers=5)
    (job,) = node.dispatch(limit=20)
    node.wait_until_some(job, 5)
    until(node, lambda: "leased" in uses(node), "its lease is seen")
    first, hit = node.engine_record(), uses(node).index("leased")
    with log.open("a") as file:
        file.write(f"NVRM: Xid (PCI:0000:{hit + 1:02x}:00): 31, pid={first.pid}, name=python, Ch 00000008\n")
    fake_nvml.xid(hit, 31)
    until(node, lambda: node.engine_record().pid != first.pid, "another engine takes its place on the other GPU")
    node.engines_do()
    node.wait_for_state(job, "done")
    assert any(text.endswith("hit e1") for text in events(node, "gpu.xid"))
    assert any("is cooldown: an engine ended abnormally" in text for text in events(node, "gpu.state"))
    assert len(node.samples(job)) == node.job(job)["total"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a probe then runs as nobody")
def test_a_probe_of_a_root_daemon_runs_as_nobody_and_is_ended_with_what_it_started(
    fake_nvml: Any, new_node: NewNode, begin: Any
) -> None:
    fake_nvml.gpus(1).process(0, begin().pid, GIB)
    node = new_node(gpu_idle_window_s="1").start()
    until(node, lambda: uses(node) == ["waiting"], "somebody waits")
    node.cli("gpus", "reserve", "0", "--for", "x", "--probe", "id -u")
    until(node, lambda: gpus(node)["0"].get("probe_says") == "65534", "it is nobody")
    node.cli("gpus", "reserve", "0", "--for", "x", "--probe", "sh -c 'echo bad; exit 3'")
    until(node, lambda: gpus(node)["0"].get("probe_says") == "(it ended with code 3: bad)", "it fails")
    node.cli("gpus", "reserve", "0", "--for", "x", "--probe", "/no/such/program")
    until(node, lambda: "cannot be run" in gpus(node)["0"].get("probe_says", ""), "it cannot be run")
