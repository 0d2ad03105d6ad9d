"""The service under a real systemd, on a machine of its own: what operators type, from the wheel to the last file.

The machine has this one's systemd, so what its versions do differently is seen where the tests run.
"""

import importlib.util
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machine import Machine, need_systemd
from waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
PREFIX = "/opt/rwkvctl"
PROGRAM = f"{PREFIX}/bin/rwkvctl"
HOME = "/var/lib/rwkvctl"
TEMPORARY = "/var/cache/rwkvctl/tmp"
ROWS = "/srv/rows"
ROW = {
    "task_id": "Mine/0", "prompt": 'def add(x, y):\n    """Add two numbers."""\n', "entry_point": "add",
    "canonical_solution": "    return x + y\n", "test": "def check(candidate):\n    assert candidate(2, 3) == 5\n",
}  # fmt: skip
JUDGE = """
[judge]
model = "none"
[[judge.endpoints]]
base_url = "http://127.0.0.1:9/v1"
keys_file = "credential:judge.keys"
"""
STUB = f"[Service]\nEnvironment=PYTHONPATH={ROOT / 'tests' / 'stub'}\n"
DROP_IN = "/etc/systemd/system/rwkvctl.service.d/test.conf"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which the wheel is installed, with users alice, who may operate the node, and bob."""
    need_systemd()
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("needs hatchling: not installed")
    folder = tmp_path_factory.mktemp("machine")
    wheels = folder / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    built = [*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run(built, check=True)
    (wheel,) = wheels.iterdir()
    places = [sys.base_prefix, sys.prefix, wheels, ROOT / "tests" / "stub"]
    made = Machine(folder, list(dict.fromkeys(Path(place) for place in places)))
    try:
        made.run(sys.executable, "-m", "venv", "--without-pip", PREFIX)
        (packages,) = made.path(PREFIX).glob("lib/python*/site-packages")
        (packages / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
        made.run(*pip, "--python", f"{PREFIX}/bin/python", "install", "--no-deps", "--no-index", str(wheel))
        for user in ("alice", "bob"):
            made.run("useradd", "--create-home", user)
        made.path(f"{ROWS}/human_eval").mkdir(parents=True)
        made.path(f"{ROWS}/human_eval/HumanEval.jsonl").write_text(json.dumps(ROW) + "\n")
        yield made
    finally:
        made.close()


@pytest.fixture
def fresh(machine: Machine) -> Iterator[Machine]:
    """The machine as it was before anybody installed the service, whatever a test does to it."""
    yield machine
    machine.run(PROGRAM, "service", "uninstall", "--yes", check=False)
    machine.run("rm", "-rf", HOME, "/srv/home", "/etc/rwkvctl", str(Path(DROP_IN).parent))
    machine.run("systemctl", "daemon-reload")


def install(machine: Machine, drop_in: str = "") -> None:
    """Install the service and do all that it says to do next, for alice."""
    if drop_in:
        write(machine, DROP_IN, drop_in)
    said = machine.run(PROGRAM, "service", "install", "--json")
    for command in json.loads(said.stdout)["next"]:
        machine.run("sh", "-c", command.replace("NAME", "alice"))


def write(machine: Machine, inside: str, text: str) -> None:
    path = machine.path(inside)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def asked(machine: Machine, *words: str, user: str = "alice") -> dict[str, Any]:
    """What the command line answers to an operator."""
    done = machine.run(PROGRAM, *words, "--json", user=user, check=False)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def findings(machine: Machine, user: str = "alice") -> dict[str, str]:
    """What doctor finds: the worst verdict of each check."""
    worst = {"missing": 0, "optional": 1, "ok": 2}
    items = sorted(asked(machine, "doctor", user=user)["items"], key=lambda item: worst[item["verdict"]], reverse=True)
    return {item["name"]: item["verdict"] for item in items}


def measure(machine: Machine, *words: str) -> dict[str, Any]:
    """Dispatch one job of the built-in checkpoint and wait for its score."""
    machine.run(PROGRAM, "dispatch", "--models", "builtin", *words, "--wait", user="alice")
    return dict(asked(machine, "jobs")["items"][0])


def processes(machine: Machine, user: str) -> str:
    return machine.run("ps", "-o", "pid,args", "-u", user, "--no-headers", check=False).stdout


def worker(machine: Machine, pattern: str) -> int:
    """The process of the worker that was started last, as its record has it."""
    records = sorted(machine.path(f"{HOME}/runs").glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    record = json.loads(records[-1].read_text())
    assert not record["done"]
    return int(record["pid"])


@pytest.mark.real_engine
def test_a_fresh_node_measures_under_the_shipped_unit_and_nothing_is_left_of_it(fresh: Machine) -> None:
    before = fresh.changed()
    install(fresh)
    paths = [str(path) for path in ("/etc/systemd/system/rwkvctl.service", "/etc/systemd/system/rwkvctl.socket")]
    verified = fresh.run("systemd-analyze", "verify", "--man=no", *paths)
    assert (verified.stdout, verified.stderr) == ("", "")
    found = findings(fresh)
    assert {found[name] for name in ("service", "socket", "daemon", "sandbox", "temporary folder")} == {"ok"}
    assert "missing" not in found.values()
    job = measure(fresh, "--benchmarks", "demo_arith", "--limit", "4")
    assert (job["state"], job["score"]["n"]) == ("done", 4)
    status = fresh.path(f"/proc/{worker(fresh, 'engines/e*/record.json')}/status").read_text()
    assert ("NoNewPrivs:\t1" in status, "Seccomp:\t2" in status) == (True, True)
    assert int(status.partition("CapBnd:\t")[2].split()[0], 16) == 0

    write(fresh, f"{TEMPORARY}/of-the-last-boot/file", "")
    fresh.run("systemd-tmpfiles", "--remove", "--boot", f"--prefix={TEMPORARY}")  # as at the next boot
    assert list(fresh.path(TEMPORARY).iterdir()) == []
    fresh.run("systemd-run", "--quiet", "--unit=beside.service", "--uid=rwkvctl", "sleep", "infinity")
    refused = fresh.run(PROGRAM, "service", "uninstall", check=False)
    assert (refused.returncode, "1 daemon" in refused.stderr, "1 engine" in refused.stderr) == (5, True, True)
    said = json.loads(fresh.run(PROGRAM, "service", "uninstall", "--yes", "--json").stdout)["items"]
    assert {item["path"] for item in said if item["done"].startswith("kept")} == {HOME, "user rwkvctl"}
    assert processes(fresh, "rwkvctl").split()[1:] == ["/usr/bin/sleep", "infinity"], "that is no part of the service"
    fresh.run("systemctl", "stop", "beside.service")
    accounts = {f"/etc/{name}{end}" for name in ("passwd", "group", "shadow", "gshadow") for end in ("", "-")}
    left = {path for path in fresh.changed() - before if not Path(path).is_relative_to(HOME)}
    assert left <= accounts
    units = fresh.run("systemctl", "list-units", "--all", "--no-legend", "rwkvctl*").stdout
    assert units == ""


@pytest.mark.slow("systemd")
def test_workers_outlive_restart_kill_and_stop_and_code_is_graded(fresh: Machine) -> None:
    install(fresh, STUB)
    steering = f"{HOME}/runs/engines/stub.json"
    fresh.run("install", "-d", "-o", "rwkvctl", "-g", "rwkvctl", f"{HOME}/runs/engines")
    write(fresh, steering, json.dumps({"answers": 2}))
    fresh.run(PROGRAM, "dispatch", "--models", "builtin", "--benchmarks", "demo_arith", "--limit", "6", user="alice")

    def job_now() -> dict[str, Any]:
        return dict(asked(fresh, "jobs")["items"][0])

    wait_for(lambda: job_now().get("stages_done", 0) >= 2, "work is in flight", fresh.journal)
    workers = worker(fresh, "engines/e*/record.json"), worker(fresh, "j*/record-*.json")

    def adopted_by_another(daemon: str) -> str:
        found = wait_for(lambda: pid_of_another(fresh, daemon), "another daemon is up", fresh.journal)
        assert job_now()["state"] == "generating"
        assert (worker(fresh, "engines/e*/record.json"), worker(fresh, "j*/record-*.json")) == workers
        return str(found)

    daemon = fresh.show("rwkvctl.service", "MainPID")
    fresh.run("systemctl", "reload", "rwkvctl.service")
    assert fresh.show("rwkvctl.service", "MainPID") == daemon
    fresh.run("systemctl", "restart", "rwkvctl.service")
    daemon = adopted_by_another(daemon)
    fresh.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "rwkvctl.service")
    daemon = adopted_by_another(daemon)
    assert fresh.show("rwkvctl.service", "NRestarts") == "1"
    fresh.run("systemctl", "stop", "rwkvctl.service")
    assert fresh.show("rwkvctl.service", "ActiveState") == "inactive"
    assert asked(fresh, "status")["counts"] == {"generating": 1}  # asking is what starts it, by its socket
    adopted_by_another(daemon)

    write(fresh, steering, json.dumps({"texts": {"Add two numbers": "    return x + y\n"}}))
    done = wait_for(lambda: (job := job_now())["state"] == "done" and job, "the job is done", fresh.journal)
    assert (done["attempt"], done["score"]["n"]) == (1, 6)
    fresh.run(PROGRAM, "data", "prepare", "human_eval", "--from", ROWS, user="rwkvctl", HOME=HOME)
    code = measure(fresh, "--benchmarks", "human_eval", "--only-jobs", "code_human_eval")
    assert code["score"]["metrics"]["pass@1"]["value"] == 1.0
    fresh.run("systemctl", "stop", "rwkvctl.socket", "rwkvctl.service")
    assert "rwkv_engine" in processes(fresh, "rwkvctl")
    fresh.run("systemctl", "kill", "--kill-whom=all", "rwkvctl.service")  # as docs/service.md says
    wait_for(lambda: not processes(fresh, "rwkvctl"), "what was left is gone")
    assert "Traceback" not in fresh.run("journalctl", "--no-pager", "-o", "cat", "-u", "rwkvctl.service").stdout


def pid_of_another(machine: Machine, daemon: str) -> str:
    """The daemon's process once it is ready and another one than before."""
    pid, state = (machine.show("rwkvctl.service", name) for name in ("MainPID", "ActiveState"))
    return pid if state == "active" and pid not in {"0", daemon} else ""


@pytest.mark.slow("systemd")
def test_a_unit_that_leaves_no_temporary_folder_is_found_by_install_and_doctor(fresh: Machine) -> None:
    install(fresh)
    write(fresh, DROP_IN, "[Service]\nEnvironment=TMPDIR=/srv\n")
    said = fresh.run(PROGRAM, "service", "install").stderr
    assert "has a TMPDIR that ProtectSystem=strict makes read-only (/srv)" in said
    fresh.run("systemctl", "daemon-reload")
    fresh.run("systemctl", "restart", "rwkvctl.service")
    found = findings(fresh)
    assert (found["service"], found["temporary folder"]) == ("missing", "missing")
    notes = asked(fresh, "status")["notes"]
    assert [note for note in notes if "no temporary folder can be written" in note]


@pytest.mark.slow("systemd")
def test_an_operator_is_told_who_prepares_rows(fresh: Machine) -> None:
    install(fresh)
    for user in ("alice", ""):
        refused = fresh.run(PROGRAM, "data", "prepare", "human_eval", "--from", ROWS, user=user, check=False)
        assert refused.returncode == 5
        assert "Run `sudo -u rwkvctl rwkvctl data prepare human_eval --from /srv/rows`" in refused.stderr
    fresh.run(PROGRAM, "data", "prepare", "human_eval", "--from", ROWS, user="rwkvctl", HOME=HOME)
    write(fresh, f"{ROWS}/mine.jsonl", json.dumps({"question": "1+1=", "answer": "2"}) + "\n")
    own = ("dispatch", "--models", "builtin", "--rows", f"{ROWS}/mine.jsonl")
    for words in (("data", "list"), ("benchmarks", "show", "human_eval"), own):
        refused = fresh.run(PROGRAM, *words, user="alice", check=False)
        assert refused.returncode != 0
        assert "they belong to rwkvctl; run this as that user, with `sudo -u rwkvctl" in refused.stderr
        assert (
            "Add two numbers"
            in fresh.run(PROGRAM, "benchmarks", "show", "human_eval", user="rwkvctl", HOME=HOME).stdout
        )


@pytest.mark.slow("systemd")
def test_a_home_on_another_disk_needs_one_line_that_is_said(fresh: Machine) -> None:
    fresh.path("/srv/home").mkdir()
    write(fresh, "/etc/rwkvctl/config.toml", 'home = "/srv/home"\n')
    fresh.run(PROGRAM, "service", "install")
    fresh.run("systemd-sysusers")
    fresh.run("systemd-tmpfiles", "--create")
    fresh.run("chown", "rwkvctl:", "/srv/home")
    fresh.run("usermod", "-aG", "rwkvctl", "alice")
    fresh.run("systemctl", "daemon-reload")
    assert fresh.run("systemctl", "start", "rwkvctl.service", check=False).returncode != 0
    assert fresh.show("rwkvctl.service", "ExecMainStatus") == "2"
    assert "`ReadWritePaths=/srv/home`" in fresh.journal()
    write(fresh, DROP_IN, "[Service]\nReadWritePaths=/srv/home\n")
    fresh.run("systemctl", "daemon-reload")
    fresh.run("systemctl", "start", "rwkvctl.service")
    assert asked(fresh, "status")["counts"] == {}
    assert fresh.path("/srv/home/store.sqlite").exists()


@pytest.mark.slow("systemd")
def test_a_key_comes_from_systemd_and_its_file_is_roots_alone(fresh: Machine) -> None:
    write(fresh, "/etc/rwkvctl/judge.keys", "a-key-of-the-judge\n")
    fresh.path("/etc/rwkvctl/judge.keys").chmod(0o600)
    write(fresh, "/etc/rwkvctl/config.toml", JUDGE)
    install(fresh, "[Service]\nLoadCredential=judge.keys:/etc/rwkvctl/judge.keys\n")
    (judge,) = asked(fresh, "judge")["judges"]
    assert [key["state"] for key in judge["endpoints"][0]["keys"]] == ["ok"]
    fresh.path(DROP_IN).unlink()
    fresh.run("systemctl", "daemon-reload")
    assert fresh.run("systemctl", "restart", "rwkvctl.service", check=False).returncode != 0
    assert "add LoadCredential=judge.keys:FILE" in fresh.journal()


@pytest.mark.slow("systemd")
def test_a_users_service_measures_too_and_goes_without_a_trace(machine: Machine) -> None:
    number = machine.run("id", "-u", "bob").stdout.strip()
    environ = {"XDG_RUNTIME_DIR": f"/run/user/{number}"}

    def bobs(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return machine.run(*words, user="bob", check=check, **environ)

    machine.run("systemctl", "start", f"user@{number}.service")  # as logging in does
    try:
        said = bobs(PROGRAM, "service", "install", "--user", "--json")
        commands = json.loads(said.stdout)["next"]
        assert commands[-1] == "loginctl enable-linger"
        write(machine, "/home/bob/.config/systemd/user/rwkvctl.service.d/test.conf", STUB)
        for command in commands[:-1]:
            bobs("sh", "-c", command)
        folder = "/home/bob/.config/systemd/user"
        units = [f"{folder}/{name}" for name in ("rwkvctl.service", "rwkvctl.socket")]
        verified = bobs("systemd-analyze", "--user", "verify", "--man=no", *units)
        assert (verified.stdout, verified.stderr) == ("", "")
        bobs(PROGRAM, "dispatch", "--models", "builtin", "--benchmarks", "demo_arith", "--limit", "3", "--wait")
        bobs("systemctl", "--user", "restart", "rwkvctl.service")
        (job,) = json.loads(bobs(PROGRAM, "jobs", "--json").stdout)["items"]
        assert job["state"] == "done"
        said = bobs(PROGRAM, "service", "uninstall", "--user", "--yes", "--json")
        done = {item["path"]: item["done"] for item in json.loads(said.stdout)["items"]}
        assert "ended" in done.values()
        assert done[f"{folder}/rwkvctl.service.d/test.conf"] == "kept: your file"
        assert "rwkv" not in processes(machine, "bob")
        assert not machine.path(f"/run/user/{number}/rwkvctl").exists()
        assert [path.name for path in machine.path(folder).iterdir()] == ["rwkvctl.service.d"]
    finally:
        bobs(PROGRAM, "service", "uninstall", "--user", "--yes", check=False)
        machine.run("systemctl", "stop", f"user@{number}.service", check=False)
