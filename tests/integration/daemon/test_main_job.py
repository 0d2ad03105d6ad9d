"""The main job end to end: dispatch, generate, grade, score, with real processes."""

import hashlib
import json
import shutil
import socket

import pytest
from live_node import kill_worker

from rwkv_daemon.workers import worker_process
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.errors import RefusedError, RwkvctlError


@pytest.fixture(scope="module")
def shared(module_node):
    """A node for tests whose jobs are like no other's."""
    return module_node().start()


@pytest.mark.real_engine
def test_both_demo_benchmarks_get_a_score_with_provenance(node):
    jobs = node.dispatch(only_datasets=["demo_arith", "demo_choice"])
    for name in jobs:
        job = node.wait_for_state(name, "done", "failed")
        assert job["state"] == "done", job
        score = job["score"]
        assert score["n"] == score["rows"] == 300
        assert score["metrics"]["accuracy"]["value"] >= 0.9
        assert score["metrics"]["accuracy"]["ci_low"] < score["metrics"]["accuracy"]["value"]
        known = score["provenance"]
        assert len(known["weights_sha256"]) == 64
        assert known["rows_sha256"]
        assert known["numerics"] == "fp32"
        assert known["engines"][0]["torch_version"]
        assert known["configuration"]["profile"] == "demo-v1"
    assert node.job(jobs[1])["score"]["chance"] == 0.25


@pytest.mark.real_engine
def test_kill_9_of_an_engine_in_mid_job_changes_no_answer(node):
    """The real engine, which nobody holds: what it had not answered, another process generates."""
    work = {"limit": 100, "settings": {"k": "4", "temperature": "2.5"}}
    (name,) = node.dispatch(**work)
    node.wait_until_some(name, 20)
    assert kill_worker(node.engine_record())
    assert node.wait_for_state(name, "done", "failed")["score"]["n"] == 400
    assert node.job(name)["attempt"] == 1, "the runner went on with the next engine"
    lines = node.stage_lines(name)
    assert len(lines) == len(set(lines)) == 400
    (again,) = node.dispatch(**work, overwrite=True)
    node.wait_for_state(again, "done")
    assert node.answers_of(again) == node.answers_of(name)


def test_the_same_work_is_never_queued_twice(node):
    (first,) = node.dispatch(limit=5)
    assert node.dispatch(limit=5) == []
    node.wait_for_state(first, "done")
    reply = node.api.post(
        "/v1/plan", {"selection": {"models": ["builtin"], "only_datasets": ["demo_arith"], "limit": 5}}
    )
    (row,) = reply.value["rows"]
    assert (row["action"], row["reason"], row["job"]) == ("skip", "done", first)
    (second,) = node.dispatch(limit=5, overwrite=True)
    assert node.wait_for_state(second, "done")["version"] == 2
    assert node.job(first)["state"] == "done"


def test_a_repeated_request_gets_the_same_answer(shared):
    body = {"selection": {"models": ["builtin"], "only_datasets": ["demo_arith"], "limit": 3}, "request_id": "once"}
    first, second = shared.api.post("/v1/dispatch", body).value, shared.api.post("/v1/dispatch", body).value
    assert second["repeated"]
    assert (first["session"], first["jobs"]) == (second["session"], second["jobs"])


def test_a_request_id_of_another_change_is_refused(shared):
    body = {"selection": {"models": ["builtin"], "only_datasets": ["demo_arith"], "limit": 9}, "request_id": "twice"}
    shared.api.post("/v1/dispatch", body)
    with pytest.raises(RefusedError, match="was used for another kind of request; nothing was done"):
        shared.api.post("/v1/pause", {"queue": True, "request_id": "twice"})


def test_a_dispatch_with_another_plan_hash_is_refused(shared):
    wanted = "--models", "builtin", "--only-datasets", "demo_arith", "--limit", "2"
    found = shared.cli("dispatch", *wanted, "--plan", "0123", check=False)
    assert found.returncode == 5
    assert "queue" in found.stderr

    def queue() -> dict:
        return json.loads(shared.cli("queue", *wanted, "--json").stdout)

    shared.until(lambda: queue()["rows"][0]["action"] == "run", "the weights are hashed, which changes the plan")
    planned = queue()
    shared.cli("dispatch", *wanted, "--plan", planned["hash"])


def test_limit_makes_a_partial_score_of_the_first_rows(shared):
    (name,) = shared.dispatch(limit=7)
    score = shared.wait_for_state(name, "done")["score"]
    assert score["partial"]
    assert score["n"] == 7
    assert [sample["row"] for sample in shared.samples(name)] == list(range(7))


def test_settings_change_the_work_and_are_checked(shared):
    (name,) = shared.dispatch(limit=4, settings={"k": "3", "temperature": "1.0"})
    job = shared.wait_for_state(name, "done")
    assert job["total"] == 12
    assert job["score"]["provenance"]["configuration"]["stages"][0]["sampling"]["temperature"] == 1.0
    found = shared.cli("queue", "--models", "builtin", "--only-datasets", "demo_arith", "--set", "heat=2", check=False)
    assert found.returncode == 2
    assert "temperature" in found.stderr


def test_one_engine_serves_all_jobs_of_a_model(shared):
    jobs = shared.dispatch(only_datasets=["demo_arith", "demo_choice"], limit=20)
    for name in jobs:
        shared.wait_for_state(name, "done")
    engines = {engine["attempt"] for name in jobs for engine in shared.job(name)["score"]["provenance"]["engines"]}
    assert len(engines) == 1


def test_an_idle_engine_is_unloaded(new_node):
    node = new_node(idle_unload_s="0.2").start()
    (name,) = node.dispatch(limit=3)
    node.wait_for_state(name, "done")
    node.wait_until_cold()
    record = node.engine_record()
    assert record.done
    assert not worker_process.is_same(record.pid, record.pid_start)


def test_two_models_take_turns_on_one_lease(node):
    node.add_model("rwkv7-g1-0.1b-20250101-ctx4096")
    jobs = node.dispatch(models=["builtin", "rwkv7-g1*"], limit=10)
    assert len(jobs) == 2
    for name in jobs:
        assert node.wait_for_state(name, "done")["score"]["n"] == 10


def test_a_copy_of_a_checkpoint_is_the_same_model(node):
    shutil.copy(builtin_checkpoint_path(), node.home / "weights" / "rwkv7-g1-0.1b-20250101-ctx4096.pth")
    jobs = node.dispatch(models=["builtin", "rwkv7-g1*"], limit=10)
    for name in jobs:
        assert node.wait_for_state(name, "done", "failed", "stopped")["state"] == "done"
    assert {score["job"] for score in node.api.get("/v1/scores").value["items"]} == {jobs[0]}
    assert node.dispatch(models=["builtin", "rwkv7-g1*"], limit=10) == []
    assert sum(bool(node.stage_lines(name)) for name in jobs) == 1, "only one of them generated anything"


def test_a_second_daemon_on_the_home_is_refused_and_sigterm_is_clean(node):
    second = node.refused_start()
    assert second.returncode == 5
    assert "already runs" in second.stderr
    assert node.terminate() == 0
    assert not node.socket.exists()
    assert node.start().answers()


def test_a_stale_socket_is_removed(new_node):
    node = new_node()
    node.socket.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(node.socket))
    assert node.start().answers()


def test_a_stopped_job_resumes_where_it_stood(node):
    node.engines_do(answers=30)
    (name,) = node.dispatch(limit=60)
    node.wait_until_some(name, 30)
    (item,) = node.api.post("/v1/stop", {"jobs": [name]}).value["items"]
    assert item == {"job": name, "state": "stopped", "changed": True}
    done = node.job(name)["done"]
    (again,) = node.api.post("/v1/stop", {"jobs": [name]}).value["items"]
    assert not again["changed"]
    node.engines_do()
    node.api.post("/v1/resume", {"jobs": [name]})
    job = node.wait_for_state(name, "done")
    assert done < 60
    assert job["attempt"] == 2
    assert job["score"]["n"] == 60
    lines = node.stage_lines(name)
    assert len(lines) == len(set(lines)) == 60


def test_dispatch_resumes_a_stopped_job(node):
    selection = {"limit": 30}
    node.engines_do(answers=10)
    (name,) = node.dispatch(**selection)
    node.wait_until_some(name, 10)
    node.api.post("/v1/stop", {"all": True})
    node.engines_do()
    reply = node.api.post(
        "/v1/dispatch", {"selection": {"models": ["builtin"], "only_datasets": ["demo_arith"]} | selection}
    ).value
    assert reply["plan"]["rows"][0]["reason"] == "resume"
    assert node.wait_for_state(name, "done")["score"]["n"] == 30


def test_an_older_client_works_and_a_newer_one_is_told(shared):
    head = b"GET /v1/info HTTP/1.1\r\nhost: x\r\nconnection: close\r\nrwkvctl-protocol: %d\r\n\r\n"
    assert b"200" in raw(shared.socket, head % 0).split(b"\r\n")[0]
    answer = raw(shared.socket, head % 9)
    assert b"426" in answer.split(b"\r\n")[0]
    assert b"same version" in answer


def raw(path, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        link.sendall(request)
        answer = b""
        while piece := link.recv(65536):
            answer += piece
        return answer


def test_rows_that_were_replaced_are_not_mixed(node, real_rows):
    node.cli("data", "prepare", "arc_challenge", "--from", str(real_rows / "arc_challenge"))
    node.engines_do(answers=10)
    (name,) = node.dispatch(only_datasets=["arc_challenge"], only_jobs=["multi_choice_plain"], limit=30)
    node.wait_until_some(name, 10)
    node.api.post("/v1/stop", {"jobs": [name]})
    node.engines_do()
    path = node.home / "data" / "arc_challenge" / "manifest.json"
    manifest = json.loads(path.read_text())
    rows = node.home / "data" / "arc_challenge" / "test.jsonl"
    rows.write_bytes(b"".join(reversed(rows.read_bytes().splitlines(keepends=True))))
    manifest["sha256"] = hashlib.sha256(rows.read_bytes()).hexdigest()
    path.write_text(json.dumps(manifest))
    node.api.post("/v1/resume", {"jobs": [name]})
    job = node.wait_for_state(name, "held", "done")
    assert job["state"] == "held"
    assert "dispatch again" in job["detail"]


def test_absurd_selections_are_refused_with_a_sentence(shared):
    for selection in ({"limit": 0}, {"limit": -3}, {"seed": -1}, {"numerics": "fp4"}, {"only_datasets": ["nope"]}):
        wanted = {"models": ["builtin"], "only_datasets": ["demo_arith"]} | selection
        with pytest.raises(RwkvctlError) as refused:
            shared.api.post("/v1/plan", {"selection": wanted})
        assert refused.value.exit_code == 2


def test_a_stop_is_answered_once_for_a_request_id(node):
    node.engines_do(answers=0)
    (name,) = node.dispatch(limit=5)
    first = node.api.post("/v1/stop", {"jobs": [name], "request_id": "s1"}).value["items"]
    assert first[0]["changed"]
    assert node.api.post("/v1/stop", {"jobs": [name], "request_id": "s1"}).value["items"] == first
